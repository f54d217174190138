import type { KeyRecord } from '../../../core/record.js'
import type { Row } from '../connections/connection.js'
import { wholeMs } from './key-row.js'

/** The key as an operator saw it. A change that is based on it happens only if this is still so. */
export type SeenKey = Pick<KeyRecord, 'tenant' | 'id' | 'incarnation' | 'fence'>

/** What an operator sees of a key at a glance: all of it but the request, the fingerprint and the answer. */
export interface KeySummary extends Omit<KeyRecord, 'owner' | 'fingerprint' | 'request' | 'hasRequest' | 'answer'> {
  /** When background work looks at it next. Null for a key from before there was any. */
  readonly dueAt: number | null
  /** The call whose outcome an operator has to decide. */
  readonly parkedStep: string | null
  readonly answerStatus: number | null
}

export const summaryColumns = `
  tenant, id::text as id, scope, key, state, incarnation::text as incarnation, fence, recovery_point, after_failure, async, attempts,
  reason, parked_step, answer_status, ${wholeMs('locked_until')} as lease_until, ${wholeMs('created_at')} as created_at,
  case when expires_at < 'infinity' then ${wholeMs('expires_at')} end as expires_at,
  case when due_at > '-infinity' then ${wholeMs('due_at')} end as due_at`

export function summaryOf(row: Row): KeySummary {
  return {
    tenant: row.tenant,
    id: row.id,
    scope: row.scope,
    key: row.key,
    state: row.state,
    incarnation: row.incarnation,
    fence: row.fence,
    recoveryPoint: row.recovery_point,
    afterFailure: row.after_failure,
    async: row.async,
    attempts: row.attempts,
    reason: row.reason,
    parkedStep: row.parked_step,
    answerStatus: row.answer_status,
    leaseUntil: row.lease_until,
    createdAt: row.created_at,
    expiresAt: row.expires_at ?? Number.POSITIVE_INFINITY,
    dueAt: row.due_at,
  }
}
