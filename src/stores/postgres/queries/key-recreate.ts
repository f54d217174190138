import type { KeyRecord } from '../../../core/record.js'
import type { KeyClaim } from '../../../core/store.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { afterRetention, type Beginning, recordColumns, recordOf, retentionValue } from './key-row.js'
import { audited } from './together.js'

/** Begins a new incarnation of a key that has expired, in its old row. Empty if the row is not what it was any more. */
export function keyRecreate(tables: Tables, begin: Beginning) {
  const text = `
    with done as (
    update ${tables.keys}
    set state = ${begin.state}, incarnation = $5::uuid, owner = $5::uuid, fence = ${begin.fence}, recovery_point = null, reason = null,
        after_failure = $6, fingerprint = $7::bytea, request = $8::bytea, async = ${begin.async},
        created_at = clock.time, locked_until = ${begin.lockedUntil('clock.lease_ms')}, due_at = ${begin.dueAt('clock.lease_ms')},
        waiting = ${begin.async}, attempts = 0,
        expires_at = ${afterRetention('clock.time', '$9')}, reap_after = ${afterRetention('clock.time', '$9')},
        parked_step = null, answer_status = null, answer_headers = null, answer_body = null, answer_omitted_bytes = null
    from (select clock_timestamp() as time, $10::float8 as lease_ms) as clock
    where tenant = $1 and id = $2::uuid and incarnation = $3::uuid and fence = $4
      and state in ('complete', 'failed') and expires_at <= clock_timestamp()
    returning keys.*
    ), forgotten as (
      delete from ${tables.steps} using done where steps.tenant = done.tenant and steps.key_id = done.id
    )${audited(tables, 'done', { what: begin.what, detail: `'a new life'` })}
    select ${recordColumns} from done`

  return async (db: Queryable, seen: KeyRecord, claim: KeyClaim): Promise<KeyRecord | undefined> => {
    const [row] = await db.query(text, [
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
    ])
    return row && recordOf(row)
  }
}
