import type { AdapterApp, HandlerAnswer } from '../exercise-adapter.js'
import type { Answered, Sent } from './client.js'

export interface AdapterCase extends AdapterNeeds {
  /** The row of the contract, and the outcome in the present tense. */
  readonly name: string
  run(bench: Bench): Promise<void>
}

export interface AdapterNeeds {
  readonly options?: Partial<AdapterApp['options']>
  readonly maxAnswerBytes?: number
}

/** A running server with the adapter, and what a case needs to test it. */
export interface Bench {
  readonly url: string
  readonly tenant: string
  /** How often the handler, or the operation, ran. */
  runs(): number
  /** What the handler received last. */
  received(): Uint8Array
  /** Sets what the handler does. Default: 201 with a JSON body that differs at each run. */
  handler: (run: number) => HandlerAnswer | Promise<HandlerAnswer>
  /** Sends a request: by default a POST of JSON to `/work` with the key of this case. */
  send(request?: Partial<Sent>): Promise<Answered>
  /** Sets what the store does instead of storing an answer. */
  beforeFinish(action: () => Promise<void>): void
  /** Makes the store unreachable. */
  breakStore(broken: boolean): void
  /** The state of this case's key on `/work`; undefined if there is none. */
  keyState(): Promise<string | undefined>
  /** Runs this case's waiting key of `/async`, as a worker does. */
  carryOut(): Promise<void>
  close(): Promise<void>
}

/** Makes a handler wait until the case opens the gate. */
export class Gate {
  open!: () => void
  readonly opened = new Promise<void>((resolve) => {
    this.open = resolve
  })
}

export const bytes = (text: string) => new TextEncoder().encode(text)

export const text = (body: Uint8Array) => new TextDecoder().decode(body)

export async function* inPieces(...pieces: readonly (Uint8Array | Promise<unknown>)[]): AsyncGenerator<Uint8Array> {
  for (const piece of pieces) {
    const piecePassed = await piece
    if (piecePassed instanceof Uint8Array) yield piecePassed
  }
}

/** Waits for a condition; throws after a long time. */
export async function eventually<T>(what: string, condition: () => Promise<T> | T): Promise<NonNullable<T>> {
  const end = performance.now() + 30_000
  for (;;) {
    const value = await condition()
    if (value) return value
    if (performance.now() > end) throw new Error(`gave up waiting until ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}
