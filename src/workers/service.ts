import type { Clock, Random } from '../core/clock.js'

/** What one run did, counted by kind. */
export type Counts = Readonly<Record<string, number>>

/** Background work. Every process may run one of each kind: they do not conflict. */
export interface Service {
  readonly name: string
  /** Runs in the background until stopped. It does not keep the process alive. */
  start(): void
  /** Resolves when running work has ended. A store call that hangs is abandoned after 20 s. */
  stop(): Promise<void>
  /** Does all work due now, once, and returns the counts. For tests, cron jobs and tools. */
  runOnce(): Promise<Counts>
}

export interface ServiceParts {
  readonly name: string
  readonly clock: Clock
  readonly random: Random
  /** The rest after a run that found nothing more. Randomised down to half, so that processes do not run in step. */
  readonly intervalMs: number | (() => number)
  /** One run. Returns its counts early when `stopping` is aborted. */
  run(stopping: AbortSignal): Promise<Counts>
  onRun(counts: Counts, durationMs: number): void
  onError(error: unknown): void
}

/** Longer than any single store call may take. */
const longestStopMs = 20_000

/** After a failure the next run comes early: the delay doubles up to this, and never exceeds the interval. */
const firstRetryMs = 1_000
const latestRetryMs = 10_000

/** A service that can be woken: it runs at once, or once more after the current run. */
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
      // It may have been restarted meanwhile.
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

/** Waits for `work`, at most `longestMs`. */
function within(clock: Clock, longestMs: number, work: Promise<unknown> | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const cancel = clock.schedule(resolve, longestMs)
    Promise.resolve(work).then(() => {
      cancel()
      resolve()
    }, reject)
  })
}

/** Waits until the time is over, or `signal` or `woken` is aborted. */
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
