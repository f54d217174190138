import type { KeyRecord } from '../../../core/record.js'
import type { KeyClaim } from '../../../core/store.js'
import type { Queryable, Row } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { freeKey, thisKey, wasLocked } from './free-key.js'
import { begunBy } from './key-claim.js'
import { afterRetention, type Beginning, epochMs, retentionValue } from './key-row.js'
import { audited } from './together.js'

/** Begins a new incarnation of a key that has expired, in its old row. Empty if the row is not what it was any more. */
export function keyRecreate(tables: Tables, begin: Beginning) {
  const asSeen = `key.incarnation = $3::uuid and key.fence = $4 and key.state in ('complete', 'failed') and key.expires_at <= statement_timestamp()`
  const text = `
    with ${freeKey(tables, asSeen)}, done as (
      update ${tables.keys} as key
      set state = ${begin.state}, incarnation = $5::uuid, owner = $5::uuid, fence = ${begin.fence}, recovery_point = null, reason = null,
          after_failure = $6, fingerprint = $7::bytea, request = $8::bytea, async = ${begin.async},
          created_at = clock.time, locked_until = ${begin.lockedUntil('clock.lease_ms')}, due_at = ${begin.dueAt('clock.lease_ms')},
          waiting = ${begin.async}, attempts = 0,
          expires_at = ${afterRetention('clock.time', '$9')}, reap_after = ${afterRetention('clock.time', '$9')},
          parked_step = null, answer_status = null, answer_headers = null, answer_body = null, answer_omitted_bytes = null
      from free, (select statement_timestamp() as time, $10::float8 as lease_ms) as clock where ${thisKey}
      returning key.tenant, key.id, key.incarnation, key.fence, key.created_at
    ), forgotten as (
      delete from ${tables.steps} using done where steps.tenant = done.tenant and steps.key_id = done.id
    )${audited(tables, 'done', { what: begin.what, detail: `'a new life'` })}
    select ${epochMs('done.created_at')} as now, done.id is null and ${wasLocked(tables, asSeen)} as locked
    from (select) as always left join done on true`

  return async (db: Queryable, seen: KeyRecord, claim: KeyClaim): Promise<KeyRecord | 'locked' | undefined> => {
    const values = [
      seen.tenant,
      seen.id,
      seen.incarnation,
      seen.fence,
      claim.owner,
      claim.afterFailure,
      claim.fingerprint?.bytes ?? null,
      claim.request,
      retentionValue(claim.retention.ms),
      claim.leaseMs,
    ]
    const [{ now, locked }] = (await db.query(text, values)) as [Row]
    if (now === null) return locked ? 'locked' : undefined
    return begunBy(claim, seen.id, begin, now)
  }
}
