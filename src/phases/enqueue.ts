import type { Answer } from '../core/answer.js'
import { crashPoint } from '../core/crash-points.js'
import { keyId } from '../core/key.js'
import type { KeyClaim } from '../core/store.js'
import { outcomeOf } from '../engine/outcome.js'
import type { EngineParts } from '../engine/parts.js'
import { patiently } from '../engine/patience.js'
import type { EnqueueOutcome } from './admission.js'
import { tellWorkers } from './tell-workers.js'

/** As often as a claim: a request must not wait out an outage. */
const enqueueTries = 3

/**
 * Leaves a request to workers, and tells those in this process. By its token a repeat knows itself, so a broken connection costs a repeat.
 *
 * If the acknowledgement is lost for good, the caller gets an error and the request stays stored: a duplicate may have been told 202 for it. Workers
 * carry it out once, and a retry finds its answer.
 */
export async function enqueue<R extends Answer>(parts: EngineParts, claim: KeyClaim): Promise<EnqueueOutcome<R>> {
  const { store, clock, storeTimeoutMs, report } = parts
  parts.running.assertOpen()
  crashPoint('enqueue:before')
  const patience = { until: clock.monotonic() + storeTimeoutMs, tries: enqueueTries }
  const verdict = await patiently((limit) => store.keyEnqueue(claim, limit), patience, parts)
  crashPoint('enqueue:after')
  if (verdict.kind !== 'enqueued') return withId(keyId(claim), outcomeOf<R>(parts, claim, verdict))
  report(claim, { type: 'enqueued' })
  const { tenant, scope, key } = claim
  tellWorkers(parts.onEnqueued, { tenant, scope, key })
  return { kind: 'enqueued', id: verdict.id, incarnation: claim.owner }
}

/** A request that is turned away for work in progress is told where to look for it. */
export function withId<R extends Answer>(
  id: string,
  outcome:
    | Exclude<EnqueueOutcome<R>, { kind: 'enqueued' | 'in-progress' }>
    | { readonly kind: 'in-progress'; readonly retryAfterMs: number },
): EnqueueOutcome<R> {
  return outcome.kind === 'in-progress' ? { ...outcome, id } : outcome
}
