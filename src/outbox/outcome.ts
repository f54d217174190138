import { storableErrorText } from '../core/storable-text.js'
import type { JobSettlement, TakenJob } from '../core/store.js'
import type { Ended } from './lanes.js'

type WithoutRef<Each> = Each extends unknown ? Omit<Each, 'tenant' | 'id' | 'token'> : never

export type Outcome = WithoutRef<JobSettlement>

/** What to store of a job after a delivery or a release. Pure, but for the jitter in `waitMs`. */
export function outcomeOf(
  { attempt }: Pick<TakenJob, 'attempt'>,
  ended: Ended,
  { maxAttempts, waitMs }: { readonly maxAttempts: number; waitMs(attempt: number, retryAfterMs?: number): number },
): Outcome {
  if (ended === 'released') return { as: 'release' }
  const { delivery } = ended
  if (delivery === 'delivered') return { as: 'delivered' }
  const { error: cause, final = false, retryAfterMs } = delivery
  const error = storableErrorText(cause)
  if (final || attempt >= maxAttempts) return { as: 'dead', error }
  return { as: 'retry', dueInMs: waitMs(attempt, retryAfterMs), error }
}
