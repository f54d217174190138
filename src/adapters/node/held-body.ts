import type { Answer } from '../../core/answer.js'
import { type Callback, isBodiless } from './written-bytes.js'

/** Where a body goes that is too large to be held. */
interface Outlet {
  /** Says whether there is room for more. */
  flow(bytes: Uint8Array, done: Callback | undefined): boolean
}

const noBytes = new Uint8Array()

/** What a handler writes. All of it is kept up to the cap; beyond that it need not be held back, and flows, but for its last piece. */
export class HeldBody {
  readonly #maxBytes: number
  readonly #outlet: Outlet
  /** Most have one piece. */
  #first: Uint8Array = noBytes
  #others: Uint8Array[] | undefined
  #size = 0

  constructor(maxBytes: number, outlet: Outlet) {
    this.#maxBytes = maxBytes
    this.#outlet = outlet
  }

  /** `isOurs`: nobody else can change these bytes. Others are copied: what is stored now must be what is sent then. */
  write(piece: Uint8Array, isOurs: boolean, done?: Callback): boolean {
    this.#size += piece.length
    if (piece.length > 0) this.#add(isOurs ? piece : Buffer.from(piece))
    if (this.#size > this.#maxBytes && this.#others) {
      const last = this.#others.pop() as Uint8Array
      const goes = this.rest()
      this.#first = last
      this.#others = undefined
      return this.#outlet.flow(goes, done)
    }
    if (done) process.nextTick(done)
    return true
  }

  #add(piece: Uint8Array): void {
    if (this.#first.length === 0) {
      this.#first = piece
      return
    }
    this.#others ??= []
    this.#others.push(piece)
  }

  /** What has not been sent. */
  rest(): Uint8Array {
    return this.#others ? Buffer.concat([this.#first, ...this.#others]) : this.#first
  }

  /** As it is stored. */
  kept(status: number, headers: Answer['headers']): Answer {
    if (isBodiless(status)) {
      // Node would send that of a 205, and a replay would have none.
      this.#first = noBytes
      this.#others = undefined
      return { status, headers, body: noBytes }
    }
    if (this.#size > this.#maxBytes) return { status, headers, body: noBytes, omittedBytes: this.#size }
    this.#first = this.rest()
    this.#others = undefined
    return { status, headers, body: this.#first }
  }
}
