import type { Clock, Random } from '../core/clock.js'

/** How many of what a worker did in one go. */
export type Counts = Readonly<Record<string, number>>

/** Background work. Every process may run one of each kind: they do not get in each other's way. */
export interface Service {
  readonly name: string
  /** Works in the background from now on, until it is stopped. It does not keep a process alive that has nothing else to do. */
  start(): void
  /** Ends when what is under way has ended. */
  stop(): Promise<void>
  /** Does all that there is to do now, once, and says how much it was. For tests, cron jobs and tools. */
  runOnce(): Promise<Counts>
}

export interface ServiceParts {
  readonly name: string
  readonly clock: Clock
  readonly random: Random
  /** How long it rests when there was nothing left to do. Half as long at the least, so that processes do not march in step. */
  readonly intervalMs: number
  /** One go. Ends early, with what it has, when `stopping` is aborted. */
  run(stopping: AbortSignal): Promise<Counts>
  onRun(counts: Counts, durationMs: number): void
  onError(error: unknown): void
}

export function createService({ name, clock, random, intervalMs, run, onRun, onError }: ServiceParts): Service {
  let stopping = new AbortController()
  let loop: Promise<void> | undefined

  return {
    name,
    start() {
      if (loop && !stopping.signal.aborted) return
      stopping = new AbortController()
      const { signal } = stopping
      loop = loop ? loop.then(() => repeat(signal)) : repeat(signal)
    },
    async stop() {
      stopping.abort()
      const ending = loop
      await ending
      // It may have been started again meanwhile.
      if (loop === ending) loop = undefined
    },
    runOnce: () => measured(new AbortController().signal),
  }

  async function repeat(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await measured(signal)
      } catch (error) {
        // The database may be away for a while: the next go comes as planned.
        onError(error)
      }
      await rest(clock, intervalMs * (0.5 + random.fraction() / 2), signal, { background: true })
    }
  }

  async function measured(signal: AbortSignal): Promise<Counts> {
    const startedAt = clock.monotonic()
    const counts = await run(signal)
    onRun(counts, clock.monotonic() - startedAt)
    return counts
  }
}

/** Waits, but no longer than until `signal` is aborted. */
export function rest(clock: Clock, delayMs: number, signal: AbortSignal, options: { background?: boolean } = {}): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve()
    const end = () => {
      cancel()
      signal.removeEventListener('abort', end)
      resolve()
    }
    const cancel = clock.schedule(end, delayMs, options)
    signal.addEventListener('abort', end)
  })
}
