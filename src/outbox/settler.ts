import type { Clock } from '../core/clock.js'
import { isStoreTrouble, OncekeyError } from '../core/errors.js'
import type { JobSettlement, OutboxStore } from '../core/store.js'

interface Wanted {
  readonly settlement: JobSettlement
  /** From then on another relay may have it, and the store need not be told any more. */
  readonly until: number
  /** `error`: the store was not told, or did not want to know. */
  done(error?: unknown): void
}

/** How long after a failure the store is asked again. */
const firstPauseMs = 50
const mostPauseMs = 1_000

/**
 * Tells the store what became of jobs: all that came together while the statement before was under way go into one. While the store is away
 * it asks again, for as long as the lease lasts.
 */
export function settler(outbox: OutboxStore, clock: Clock) {
  let waiting: Wanted[] = []
  let isBusy = false

  async function work(): Promise<void> {
    // What ends in the same turn of the event loop goes together.
    await new Promise((resolve) => void setImmediate(resolve))
    for (let pauseMs = firstPauseMs; waiting.length > 0; ) {
      const batch = waiting
      waiting = []
      try {
        const results = await outbox.jobsSettle({ jobs: batch.map(({ settlement }) => settlement) })
        batch.forEach(({ done }, index) => {
          done(results[index] === 'done' ? undefined : leaseLost())
        })
        pauseMs = firstPauseMs
      } catch (error) {
        const again = batch.filter(({ until }) => isStoreTrouble(error) && clock.monotonic() < until)
        for (const wanted of batch) if (!again.includes(wanted)) wanted.done(error)
        waiting.unshift(...again)
        if (again.length > 0) await new Promise<void>((resolve) => void clock.schedule(resolve, pauseMs))
        pauseMs = Math.min(mostPauseMs, pauseMs * 2)
      }
    }
    isBusy = false
  }

  return function settle(wanted: Wanted): void {
    waiting.push(wanted)
    if (isBusy) return
    isBusy = true
    void work()
  }
}

const leaseLost = () =>
  new OncekeyError('lease_lost', 'Another relay has the job by now, or it is gone: what became of this delivery was not stored.')
