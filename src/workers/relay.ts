import { type Duration, durationMs } from '../core/duration.js'
import { OncekeyError } from '../core/errors.js'
import { storableErrorText } from '../core/storable-text.js'
import type { Once } from '../create-once.js'
import { type BackoffOptions, backoff as backoffOf } from '../outbox/backoff.js'
import { outboxOf } from '../outbox/dead-letters.js'
import { type Ended, type HeldJob, lanes } from '../outbox/lanes.js'
import { type Outcome, outcomeOf } from '../outbox/outcome.js'
import { readPayloads } from '../outbox/payloads.js'
import { settler } from '../outbox/settler.js'
import type { Sink } from '../outbox/sink.js'
import type { JobFunction } from '../outbox/sinks/function-sink.js'
import { sinkFinder } from '../outbox/sinks/sink-finder.js'
import { checkCount, workerParts } from './parts.js'
import { noRelayCounts, toldOf } from './relay-events.js'
import { createService, type Service } from './service.js'

export interface RelayOptions {
  /** Where jobs go, or a function called per job. */
  sink?: Sink | JobFunction
  /** Sinks by job name. Other jobs go to `sink`; without one they are left to other relays. */
  sinks?: Readonly<Record<string, Sink | JobFunction>>
  /**
   * How often it polls when idle. Jobs staged by this process are taken at once; while there is work, it polls every few milliseconds.
   * Too low: needless statements. Too high: jobs of other processes wait longer. Default 1 s.
   */
  every?: Duration
  /** Jobs taken per statement, at least 2; it holds up to three times as many. Too low: more statements. Too high: if the relay dies, they wait for its lease. Default 200. */
  batch?: number
  /**
   * Bytes of payloads held at once, as stored; parsed, a payload takes several times as much. A single larger payload is delivered alone.
   * Too low: large jobs are delivered one by one. Too high: memory. Default 32 MiB.
   */
  maxBytes?: number
  /** Concurrent deliveries per sink. Too low: slow. Too high: the receiver is overloaded. Default 20. */
  concurrency?: number
  /**
   * How long this relay holds a job. Too low: queued jobs are released untried. Too high: after a crash its jobs wait that long.
   * Default 1 min.
   */
  lease?: Duration
  /** How long a sink may take, at most half the lease. Too low: slow deliveries are repeated. Too high: a hanging one holds its slot. Default half the lease. */
  timeout?: Duration
  /** Attempts before a job becomes a dead letter. Too low: an outage makes dead letters. Too high: hopeless jobs are retried for days. Default 60: about a day. */
  maxAttempts?: number
  /** Backoff of a failed job. Default: up to 1 s, doubled for each attempt to at most 1 h, with full jitter. */
  backoff?: BackoffOptions
  /**
   * What a dead letter does to its group. `'hold'`: nothing of the group is delivered until an operator retries or discards it.
   * `'go-on'`: the next job is delivered without it. Default `'hold'`, which keeps the order.
   */
  afterDead?: 'hold' | 'go-on'
}

/** The rest after a poll that found jobs or did not reach all groups; it doubles with each empty round. */
const shortestRestMs = 20
/** A run ends after this long, so that its counts are reported under constant load. */
const longestGoMs = 1_000
/** How often a take looks at all jobs, and not only at new ones. */
const wholeLookMs = 1_000

/** Delivers staged jobs, at least once each. Run it in any number of processes: no two hold the same job. */
export function relay<Tx>(once: Once<Tx>, options: RelayOptions): Service {
  const parts = workerParts(once, 'relay')
  const outbox = outboxOf(once, 'relay')
  const { onStaged, parts: engine } = once.internals
  const { clock, random } = parts
  const { batch, maxBytes, concurrency, maxAttempts, everyMs, leaseMs, timeoutMs, heldByDead } = resolved(options)
  const sinks = sinkFinder(options)
  const waitMs = backoffOf(options.backoff ?? {}, random)
  const settle = settler(outbox, clock)
  const read = (held: readonly HeldJob[]) =>
    readPayloads(
      outbox,
      held.map(({ job: { tenant, id }, token }) => ({ tenant, id, token })),
    )
  const underWay = lanes({ clock, concurrency, timeoutMs, maxBytes, read, onEnd })
  const inHand = new Set<HeldJob>()
  /** While the next batch is taken, one may be at its sinks and one on its way to the store. */
  const mostInHand = 2 * batch
  const canTake = () => inHand.size <= mostInHand && !underWay.isFull()
  const waiters = new Set<() => void>()
  let counts = noRelayCounts()
  let restMs = shortestRestMs
  let idleMs = shortestRestMs
  let lookFrom: string | undefined
  let lookedEverywhereAt = Number.NEGATIVE_INFINITY
  let nextGroup: string | undefined

  const service = createService({
    ...parts,
    intervalMs: () => restMs,
    async run(stopping) {
      // In case the store fails.
      restMs = everyMs
      const until = clock.monotonic() + longestGoMs
      for (let more = true; more && clock.monotonic() < until; ) {
        await untilChanged(() => canTake() || stopping.aborted, stopping)
        if (stopping.aborted) break
        const found = await take()
        more = found >= batch || (found > 0 && nextGroup !== undefined)
        if (found > 0) idleMs = shortestRestMs
        else if (nextGroup === undefined) idleMs = Math.min(everyMs, idleMs * 2)
        // A round over very many waiting groups takes several polls, then rests.
        restMs = nextGroup === undefined ? idleMs : shortestRestMs
      }
      return takeCounts()
    },
  })

  return {
    name: service.name,
    start() {
      onStaged.add(service.wake)
      service.start()
    },
    async stop() {
      onStaged.delete(service.wake)
      underWay.clear()
      await service.stop()
      // The last take may have added jobs.
      underWay.clear()
      await untilChanged(() => inHand.size === 0)
    },
    async runOnce() {
      const startedAt = clock.monotonic()
      for (;;) {
        await untilChanged(canTake)
        // Settling a job during a take may unblock another of its group, which that take has missed.
        const before = inHand.size
        lookedEverywhereAt = Number.NEGATIVE_INFINITY
        if ((await take()) > 0 || nextGroup !== undefined) continue
        if (before === 0) break
        await untilChanged(() => inHand.size < before)
      }
      const taken = takeCounts()
      parts.onRun(taken, clock.monotonic() - startedAt)
      return taken
    },
  }

  async function take(): Promise<number> {
    const token = random.uuid()
    // Read before the take is sent, so it never overstates the lease.
    const takenAt = clock.monotonic()
    const isWhole = takenAt - lookedEverywhereAt >= wholeLookMs
    const taken = await outbox.jobsTake({
      ...{ token, leaseMs, limit: batch, names: sinks.names, heldByDead, group: nextGroup },
      from: isWhole ? undefined : lookFrom,
    })
    if (isWhole) lookedEverywhereAt = takenAt
    lookFrom = taken.lookedUpTo ?? undefined
    nextGroup = taken.nextGroup ?? undefined
    const held = taken.jobs.map((job) => ({ job, token, takenAt, certainUntil: takenAt + leaseMs, sink: sinks.find(job.name) }))
    for (const each of held) inHand.add(each)
    underWay.add(held)
    return held.length
  }

  function onEnd(held: HeldJob, ended: Ended): void {
    const { tenant, id } = held.job
    const outcome = outcomeOrRetry(held, ended)
    settle({
      settlement: { tenant, id, token: held.token, ...outcome },
      until: held.certainUntil,
      done(unsettled) {
        inHand.delete(held)
        const { count, event } = toldOf(held, ended, { outcome, unsettled, now: clock.monotonic() })
        counts[count] += 1
        if (event) engine.reportWorker(event)
        // The next of its group may be taken now.
        if (held.job.group !== null) service.wake()
        for (const waiter of waiters) waiter()
      },
    })
  }

  /** Never throws: no caller would catch it, and the job would then break the next relay too. */
  function outcomeOrRetry({ job }: HeldJob, ended: Ended): Outcome {
    try {
      return outcomeOf(job, ended, { maxAttempts, waitMs })
    } catch (error) {
      return { as: 'retry', dueInMs: waitMs(job.attempt), error: storableErrorText(error) }
    }
  }

  /** Waits until a settled job makes `isTrue()` true, or `stopping` is aborted. */
  async function untilChanged(isTrue: () => boolean, stopping?: AbortSignal): Promise<void> {
    while (!isTrue()) {
      await new Promise<void>((resolve) => {
        const end = () => {
          waiters.delete(end)
          stopping?.removeEventListener('abort', end)
          resolve()
        }
        waiters.add(end)
        stopping?.addEventListener('abort', end)
      })
    }
  }

  function takeCounts() {
    const taken = counts
    counts = noRelayCounts()
    return taken
  }
}

function resolved({
  every = '1s',
  batch = 200,
  maxBytes = 33_554_432,
  concurrency = 20,
  lease = '1m',
  maxAttempts = 60,
  afterDead = 'hold',
  ...options
}: RelayOptions) {
  checkCount('batch', batch)
  checkCount('maxBytes', maxBytes)
  checkCount('concurrency', concurrency)
  checkCount('maxAttempts', maxAttempts)
  if (batch < 2)
    throw new OncekeyError(
      'option_invalid',
      'batch is 1: it must be an integer of at least 2, so that grouped and other jobs both have a share.',
    )
  if (afterDead !== 'hold' && afterDead !== 'go-on') {
    throw new OncekeyError('option_invalid', `afterDead is ${String(afterDead)}: it must be 'hold' or 'go-on'.`)
  }
  const leaseMs = durationMs(lease, 'lease')
  const timeoutMs = options.timeout === undefined ? leaseMs / 2 : durationMs(options.timeout, 'timeout')
  if (timeoutMs > leaseMs / 2) {
    throw new OncekeyError('option_invalid', `timeout is ${timeoutMs} ms: it must be at most half the lease, which is ${leaseMs} ms.`)
  }
  const heldByDead = afterDead === 'hold'
  return { batch, maxBytes, concurrency, maxAttempts, everyMs: durationMs(every, 'every'), leaseMs, timeoutMs, heldByDead }
}
