import type { Clock, Random } from '../core/clock.js'

/** How many of what a worker did in one go. */
export type Counts = Readonly<Record<string, number>>

/** Background work. Every process may run one of each kind: they do not get in each other's way. */
export interface Service {
  readonly name: string
  /** Works in the background from now on, until it is stopped. It does not keep a process alive that has nothing else to do. */
  start(): void
  /** Ends when what is under way has ended. A look at the store that does not end is left behind after 20 s. */
  stop(): Promise<void>
  /** Does all that there is to do now, once, and says how much it was. For tests, cron jobs and tools. */
  runOnce(): Promise<Counts>
}

export interface ServiceParts {
  readonly name: string
  readonly clock: Clock
  readonly random: Random
  /** How long it rests when there was nothing left to do. Half as long at the least, so that processes do not march in step. */
  readonly intervalMs: number | (() => number)
  /** One go. Ends early, with what it has, when `stopping` is aborted. */
  run(stopping: AbortSignal): Promise<Counts>
  onRun(counts: Counts, durationMs: number): void
  onError(error: unknown): void
}

/** Longer than any single call of the store may take. */
const longestStopMs = 20_000

/** After a failure the next go comes soon: twice as late each time, up to this, and never later than planned. */
const firstRetryMs = 1_000
const latestRetryMs = 10_000

/** A service that can be told that there is work: it looks at once, or once more if it is at it. */
export interface WakeableService extends Service {
  wake(): void
}

export function createService({ name, clock, random, intervalMs, run, onRun, onError }: ServiceParts): WakeableService {
  let stopping = new AbortController()
  let loop: Promise<void> | undefined
  let alarm = new AbortController()

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
      await within(clock, longestStopMs, ending)
      // It may have been started again meanwhile.
      if (loop === ending) loop = undefined
    },
    runOnce: () => measured(new AbortController().signal),
    wake: () => alarm.abort(),
  }

  async function repeat(signal: AbortSignal): Promise<void> {
    for (let failures = 0; !signal.aborted; ) {
      alarm = new AbortController()
      const { signal: woken } = alarm
      try {
        await measured(signal)
        failures = 0
      } catch (error) {
        onError(error)
        failures += 1
      }
      const plannedMs = typeof intervalMs === 'number' ? intervalMs : intervalMs()
      const restMs = failures === 0 ? plannedMs : Math.min(plannedMs, latestRetryMs, firstRetryMs * 2 ** (failures - 1))
      await rest(clock, restMs * (0.5 + random.fraction() / 2), signal, { background: true, woken })
    }
  }

  async function measured(signal: AbortSignal): Promise<Counts> {
    const startedAt = clock.monotonic()
    const counts = await run(signal)
    onRun(counts, clock.monotonic() - startedAt)
    return counts
  }
}

/** Waits for `work`, but no longer than that. */
function within(clock: Clock, longestMs: number, work: Promise<unknown> | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const cancel = clock.schedule(resolve, longestMs)
    Promise.resolve(work).then(() => {
      cancel()
      resolve()
    }, reject)
  })
}

/** Waits, but no longer than until `signal` or `woken` is aborted. */
export function rest(
  clock: Clock,
  delayMs: number,
  signal: AbortSignal,
  { background = false, woken }: { background?: boolean; woken?: AbortSignal } = {},
): Promise<void> {
  const enders = woken ? [signal, woken] : [signal]
  return new Promise((resolve) => {
    if (enders.some(({ aborted }) => aborted)) return resolve()
    const end = () => {
      cancel()
      for (const ender of enders) ender.removeEventListener('abort', end)
      resolve()
    }
    const cancel = clock.schedule(end, delayMs, { background })
    for (const ender of enders) ender.addEventListener('abort', end)
  })
}
