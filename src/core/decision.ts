import type { Fingerprint, FingerprintPart } from './fingerprint/fingerprint.js'
import { isExpired, type KeyRecord } from './record.js'

/** What the decision depends on. */
export interface DecisionRequest {
  readonly owner: string
  readonly fingerprint: Fingerprint | null
  /** Only workers may execute async keys. */
  readonly worker: boolean
}

export type Decision =
  /** The key is unknown: insert it. */
  | { readonly do: 'create' }
  /** The key has expired: start a new incarnation. */
  | { readonly do: 'recreate' }
  | { readonly do: 'report-mismatch'; readonly part: FingerprintPart }
  | { readonly do: 'replay' }
  | { readonly do: 'report-parked' }
  /** This same claim took the key already; its acknowledgement was lost. */
  | { readonly do: 'recognise' }
  | { readonly do: 'report-in-progress'; readonly retryAfterMs: number }
  /** No holder: take it, with the next fence. */
  | { readonly do: 'take-over' }
  /** The holder is gone and its work must not run again: store or park the unknown outcome, then decide again. */
  | { readonly do: 'settle'; readonly as: 'failed' | 'parked' }

/** The rules, in order of precedence. Pure: every store asks this one function, with its own clock. */
export function decide(record: KeyRecord | undefined, request: DecisionRequest, now: number): Decision {
  // A worker never creates a key: a key that is gone was ended elsewhere and has expired.
  if (!record) return request.worker ? { do: 'report-in-progress', retryAfterMs: 0 } : { do: 'create' }
  if (isExpired(record, now) && !request.worker) return { do: 'recreate' }

  // First, for finished and unfinished keys: the answer to another request would be wrong.
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
  // Pending keys were released and may run again. `afterFailure` concerns abandoned ones only.
  if (record.state === 'processing' && record.afterFailure === 'store') return { do: 'settle', as: 'failed' }
  if (record.state === 'processing' && record.afterFailure === 'park') return { do: 'settle', as: 'parked' }
  return { do: 'take-over' }
}

/** Decides an enqueue. It never takes over: a worker will. */
export type EnqueueDecision = Exclude<Decision, { do: 'take-over' }>

export function decideEnqueue(record: KeyRecord | undefined, request: DecisionRequest, now: number): EnqueueDecision {
  // It has no lease to recognise.
  const decision = decide(record, { ...request, owner: '', worker: false }, now)
  if (decision.do === 'take-over') return { do: 'report-in-progress', retryAfterMs: 0 }
  // Its acknowledgement was lost; no worker has claimed it since.
  const isOwn = record?.async === true && record.state === 'pending' && record.fence === 0 && record.owner === request.owner
  return isOwn && decision.do === 'report-in-progress' ? { do: 'recognise' } : decision
}
