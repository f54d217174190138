import type { JobEvent } from '../engine/events.js'
import type { Ended, HeldJob } from '../outbox/lanes.js'
import type { Outcome } from '../outbox/outcome.js'

/** `failed`: to be retried. `released`: returned untried. `unsettled`: may be delivered again. */
export const noRelayCounts = () => ({ delivered: 0, failed: 0, dead: 0, released: 0, unsettled: 0 })

interface Told {
  readonly count: keyof ReturnType<typeof noRelayCounts>
  readonly event?: JobEvent
}

/** The event and count for a job that this relay no longer holds. `unsettled`: why its end was not stored, if it was not. */
export function toldOf(
  { job: { tenant, id, name, group, attempt, lagMs }, sink, takenAt }: HeldJob,
  ended: Ended,
  { outcome, unsettled, now }: { readonly outcome: Outcome; readonly unsettled: unknown; readonly now: number },
): Told {
  const told = { tenant, id, job: name, group, attempt, sink: sink.name }
  if (unsettled !== undefined) return { count: 'unsettled', event: { ...told, type: 'job-unsettled', error: unsettled } }
  if (ended === 'released') return { count: 'released' }
  const { delivery, durationMs } = ended
  if (delivery === 'delivered') {
    return { count: 'delivered', event: { ...told, type: 'job-delivered', durationMs, waitedMs: lagMs + now - takenAt } }
  }
  const { error } = delivery
  return outcome.as === 'retry'
    ? { count: 'failed', event: { ...told, type: 'job-failed', error, durationMs, retryInMs: outcome.dueInMs } }
    : { count: 'dead', event: { ...told, type: 'job-dead', error, durationMs } }
}
