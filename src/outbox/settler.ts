import type { Clock } from '../core/clock.js'
import { isOncekeyError, isStoreTrouble, OncekeyError } from '../core/errors.js'
import { inAscii } from '../core/json-text.js'
import type { JobSettlement, OutboxStore, SettleResult } from '../core/store.js'

interface Wanted {
  readonly settlement: JobSettlement
  /** End of the lease: after it the result need not be stored. */
  readonly until: number
  /** `error`: the result was not stored. */
  done(error?: unknown): void
}

interface Waiting extends Wanted {
  /** The store refused its batch with this error, so it is sent in its own statement. */
  readonly alone?: { readonly error: unknown }
  /** Backoff while its row is locked. */
  readonly pauseMs?: number
}

/** Backoff after a failure of the store. */
const firstPauseMs = 50
const mostPauseMs = 1_000
const longer = (pauseMs: number) => Math.min(mostPauseMs, pauseMs * 2)

/**
 * Stores the results of jobs: all that arrive while a statement runs go into the next one. While the store is unavailable or another
 * session has locked the row, it retries until the lease ends. If the store refuses a batch, its results are sent one by one, so that one
 * bad row fails alone.
 */
export function settler(outbox: OutboxStore, clock: Clock) {
  let waiting: Waiting[] = []
  let isBusy = false
  let isTurnOfAlone = false

  function settle(wanted: Waiting): void {
    waiting.push(wanted)
    if (isBusy) return
    isBusy = true
    void work()
  }

  async function work(): Promise<void> {
    // Batch what ends in the same turn of the event loop.
    await new Promise((resolve) => void setImmediate(resolve))
    for (let pauseMs = firstPauseMs; waiting.length > 0; ) {
      const batch = nextBatch()
      if (batch.length === 0) continue
      try {
        const results = await outbox.jobsSettle({ jobs: batch.map(({ settlement }) => settlement) })
        batch.forEach((wanted, index) => {
          conclude(wanted, results[index])
        })
        pauseMs = firstPauseMs
      } catch (error) {
        if (!isStoreTrouble(error)) {
          refused(batch, error)
          continue
        }
        waiting.unshift(...batch)
        giveUpLate(error)
        if (waiting.length > 0) await new Promise<void>((resolve) => void clock.schedule(resolve, pauseMs))
        pauseMs = longer(pauseMs)
      }
    }
    isBusy = false
  }

  /** Alternates between the shared batch and a single result, so that neither starves. */
  function nextBatch(): Waiting[] {
    const together = waiting.filter(({ alone }) => !alone)
    const others = waiting.filter(({ alone }) => alone)
    isTurnOfAlone = others.length > 0 && (together.length === 0 || !isTurnOfAlone)
    waiting = isTurnOfAlone ? [...together, ...others.slice(1)] : others
    if (!isTurnOfAlone) return together
    const [first] = others as [Waiting]
    if (clock.monotonic() < first.until) return [first]
    first.done(first.alone?.error)
    return []
  }

  function conclude(wanted: Waiting, result: SettleResult | undefined): void {
    const { pauseMs = firstPauseMs, until, done } = wanted
    if (result === 'done') done()
    else if (result !== 'locked') done(leaseLost())
    else if (clock.monotonic() >= until) done(stayedLocked())
    else clock.schedule(() => settle({ ...wanted, pauseMs: longer(pauseMs) }), pauseMs)
  }

  function refused(batch: readonly Waiting[], error: unknown): void {
    // Other errors concern all rows: the tables are missing, or not writable.
    const isAboutAll = isOncekeyError(error) && error.code !== 'store_failed' && error.code !== 'text_unsupported'
    for (const wanted of batch) {
      const { settlement } = wanted
      const plain = plainly(settlement)
      if (batch.length > 1 && !isAboutAll) waiting.push({ ...wanted, alone: { error } })
      else if (plain && !isAboutAll) waiting.push({ ...wanted, alone: { error }, settlement: plain })
      else wanted.done(error)
    }
  }

  /** The store is unavailable: ends those whose lease is over, including those not sent yet. */
  function giveUpLate(error: unknown): void {
    const now = clock.monotonic()
    for (const { until, done } of waiting) if (now >= until) done(error)
    waiting = waiting.filter(({ until }) => now < until)
  }

  return (wanted: Wanted): void => settle(wanted)
}

/** The same with its error text in ASCII, for databases with another encoding. Undefined if it is ASCII already. */
function plainly(settlement: JobSettlement): JobSettlement | undefined {
  if (!('error' in settlement)) return undefined
  const error = inAscii(settlement.error)
  return error === settlement.error ? undefined : { ...settlement, error }
}

const leaseLost = () =>
  new OncekeyError('lease_lost', 'Another relay has the job by now, or it is gone: the result of this delivery was not stored.')
const stayedLocked = () =>
  new OncekeyError(
    'lease_lost',
    'Another session kept the row of the job locked until the lease was over: the result of this delivery was not stored.',
  )
