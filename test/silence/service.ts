import { startChild } from '../support/child.js'
import type { Asked, Flow, Told } from './flows.js'
import { limits } from './limits.js'

/** What the process gets. */
export interface Settings {
  readonly url: string
  /** Where provider and receiver are. */
  readonly outside: string
  readonly limits: typeof limits
  /** Whether it does background work. */
  readonly background: boolean
  /** The most claims in one statement. */
  readonly maxRows?: number
  /** How long a delivery of a job may take. Default: a lease. */
  readonly deliveryMs?: number | undefined
}

export type Command =
  /** In the same turn, so that they share statements. */
  | { readonly do: 'requests'; readonly asked: readonly (readonly [Flow, Asked])[] }
  | { readonly do: 'load'; readonly prefix: string; readonly clients: number; readonly of?: readonly Flow[] }
  | { readonly do: 'end load' | 'watch' | 'end watch' | 'running' | 'ended' | 'pool' | 'heap' }
  | { readonly do: 'start background' | 'stop background' | 'stop' }

export type Worker = 'sweeper' | 'completer' | 'reaper' | 'relay'
export const allWorkers: readonly Worker[] = ['sweeper', 'completer', 'reaper', 'relay']

/** A service of the campaign in its own process. */
export interface Service {
  signal(name: NodeJS.Signals): void
  /** The keys whose work began. */
  readonly ran: ReadonlySet<string>
  /** How often each worker has ended a go. */
  runsOf(worker: Worker): number
  /** How often one has failed. */
  failuresOf(worker: Worker): number
  /** Resolves with what they came to, which is not before the last one ended. */
  requests(...asked: (readonly [Flow, Asked])[]): Promise<Told[]>
  /** Starts clients that send requests until `endLoad()`. */
  load(prefix: string, clients: number, of?: readonly Flow[]): Promise<void>
  endLoad(): Promise<void>
  /** Watches the machine until `endWatch()`, which returns how much longer than usual a request may take because of it, in milliseconds. */
  watch(): Promise<void>
  endWatch(): Promise<number>
  /** Requests of clients that have ended, each told once. */
  ended(): Promise<Told[]>
  running(): Promise<Told[]>
  pool(): Promise<{ total: number; idle: number; waiting: number }>
  /** After a collection. */
  heapBytes(): Promise<number>
  startBackground(): Promise<void>
  stopBackground(): Promise<void>
  /** Stops background work and requests, and says how long that took. */
  stop(): Promise<number>
}

export async function startService(
  url: string,
  outside: { readonly url: string },
  { background = true, ...settings }: Partial<Settings> = {},
): Promise<Service> {
  const child = startChild('silence/service-process.ts', { url, outside: outside.url, limits, background, ...settings })
  // What its first requests did is told before.
  while ((await child.message()) !== 'started');
  const ran = new Set<string>()
  const runs = new Map<string, { ended: number; failed: number }>()
  const awaited = new Map<number, { resolve(result: unknown): void; reject(error: unknown): void }>()
  let count = 0

  interface Message {
    readonly id?: number
    readonly result?: unknown
    readonly ran?: string
    readonly worker?: string
    readonly failed?: boolean
  }
  const of = (worker: string) => {
    const known = runs.get(worker) ?? { ended: 0, failed: 0 }
    runs.set(worker, known)
    return known
  }
  const listen = async () => {
    for (;;) {
      const message = await child.message<Message>()
      if (message.ran !== undefined) ran.add(message.ran)
      if (message.worker !== undefined) of(message.worker)[message.failed ? 'failed' : 'ended'] += 1
      if (message.id === undefined) continue
      awaited.get(message.id)?.resolve(message.result)
      awaited.delete(message.id)
    }
  }
  void listen().catch((error: unknown) => {
    for (const { reject } of awaited.values()) reject(error)
  })
  function tell<T>(command: Command): Promise<T> {
    count += 1
    const id = count
    child.send({ id, command })
    const answer = new Promise<T>((resolve, reject) => {
      awaited.set(id, { resolve: resolve as (result: unknown) => void, reject })
    })
    // A test that has failed by then does not wait for it.
    answer.catch(() => {})
    return answer
  }

  return {
    signal: child.signal,
    ran,
    runsOf: (worker) => of(worker).ended,
    failuresOf: (worker) => of(worker).failed,
    requests: (...asked) => tell({ do: 'requests', asked }),
    load: (prefix, clients, flows) => tell({ do: 'load', prefix, clients, ...(flows && { of: flows }) }),
    endLoad: () => tell({ do: 'end load' }),
    watch: () => tell({ do: 'watch' }),
    endWatch: () => tell({ do: 'end watch' }),
    ended: () => tell({ do: 'ended' }),
    running: () => tell({ do: 'running' }),
    pool: () => tell({ do: 'pool' }),
    heapBytes: () => tell({ do: 'heap' }),
    startBackground: () => tell({ do: 'start background' }),
    stopBackground: () => tell({ do: 'stop background' }),
    stop: () => tell({ do: 'stop' }),
  }
}
