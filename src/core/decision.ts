import type { Fingerprint, FingerprintPart } from './fingerprint/fingerprint.js'
import { isExpired, type KeyRecord } from './record.js'

/** What the decision needs to know of a request. */
export interface DecisionRequest {
  readonly owner: string
  readonly fingerprint: Fingerprint | null
  /** Workers may execute async keys; nobody else may. */
  readonly worker: boolean
}

export type Decision =
  /** Nothing is known of the key: insert it. */
  | { readonly do: 'create' }
  /** The key is known but expired: begin a new incarnation. */
  | { readonly do: 'recreate' }
  | { readonly do: 'report-mismatch'; readonly part: FingerprintPart }
  | { readonly do: 'replay' }
  | { readonly do: 'report-parked' }
  /** This very claim took the key already; its acknowledgement was lost. */
  | { readonly do: 'recognise' }
  | { readonly do: 'report-in-progress'; readonly retryAfterMs: number }
  /** Nobody works on it: take it, with the next fence. */
  | { readonly do: 'take-over' }
  /** The holder is gone and its work must not run again: store or park the unknown outcome, then decide anew. */
  | { readonly do: 'settle'; readonly as: 'failed' | 'parked' }

/**
 * The rules of the house, in their order of precedence. Pure: every store asks this one function, with its own clock.
 */
export function decide(record: KeyRecord | undefined, request: DecisionRequest, now: number): Decision {
  // A worker goes on with what is there, and begins nothing: a key that has ended meanwhile, and is forgotten, was somebody else's to end.
  if (!record) return request.worker ? { do: 'report-in-progress', retryAfterMs: 0 } : { do: 'create' }
  if (isExpired(record, now) && !request.worker) return { do: 'recreate' }

  // Before anything else is said of the key: an answer to another question is a lie, in flight or finished.
  const part = record.fingerprint && request.fingerprint ? request.fingerprint.differenceFrom(record.fingerprint) : null
  if (part) return { do: 'report-mismatch', part }

  if (record.state === 'complete' || record.state === 'failed') return { do: 'replay' }
  if (record.state === 'parked') return { do: 'report-parked' }

  return decideUnfinished(record, request, now)
}

function decideUnfinished(record: KeyRecord, request: DecisionRequest, now: number): Decision {
  const leaseLeftMs = record.state === 'processing' && record.leaseUntil !== null ? record.leaseUntil - now : 0
  if (leaseLeftMs > 0) {
    return record.owner === request.owner ? { do: 'recognise' } : { do: 'report-in-progress', retryAfterMs: leaseLeftMs }
  }
  if (record.async && !request.worker) return { do: 'report-in-progress', retryAfterMs: 0 }
  // Released keys are pending: whoever let go of them said that they may run. Only an abandoned one is in question.
  if (record.state === 'processing' && record.afterFailure === 'store') return { do: 'settle', as: 'failed' }
  if (record.state === 'processing' && record.afterFailure === 'park') return { do: 'settle', as: 'parked' }
  return { do: 'take-over' }
}

/** What becomes of a request that is left to workers. It takes nothing over: whatever is there to be taken, a worker will. */
export type EnqueueDecision = Exclude<Decision, { do: 'take-over' }>

/** The same rules for a request that is left to workers. */
export function decideEnqueue(record: KeyRecord | undefined, request: DecisionRequest, now: number): EnqueueDecision {
  // It holds no lease that it could know again.
  const decision = decide(record, { ...request, owner: '', worker: false }, now)
  if (decision.do === 'take-over') return { do: 'report-in-progress', retryAfterMs: 0 }
  // Its acknowledgement was lost, and no worker has come since.
  const isOwn = record?.async === true && record.state === 'pending' && record.fence === 0 && record.owner === request.owner
  return isOwn && decision.do === 'report-in-progress' ? { do: 'recognise' } : decision
}
