import type { KeyRecord } from '../../../core/record.js'
import type { KeyClaim } from '../../../core/store.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { afterRetention, type Beginning, databaseNow, recordColumns, recordOf, retentionValue } from './key-row.js'
import { audited } from './together.js'

/** What the claim found, and the database's time when it looked. `inserted`: the row is new, and ours. */
export interface Found {
  readonly record: KeyRecord
  readonly inserted: boolean
  readonly now: number
}

/**
 * Finds the key, or inserts it as this claim's, in one statement and one round trip. A key that exists is only read: a
 * replay writes nothing, no WAL and no dead tuple.
 *
 * Comes back empty when another transaction commits the same key between this statement's snapshot and its insert:
 * then the row is there for the next look.
 */
export function keyClaim(tables: Tables, begin: Beginning) {
  const { keys } = tables
  const text = `
    with existing as (
      select * from ${keys} where tenant = $1 and id = $2::uuid
    ), inserted as (
      insert into ${keys} (tenant, id, scope, key, state, incarnation, owner, fence, after_failure, fingerprint, request,
                           async, waiting, created_at, locked_until, due_at, expires_at, reap_after)
      select $1, $2::uuid, $3, $4, ${begin.state}, $5::uuid, $5::uuid, ${begin.fence}, $6, $7::bytea, $8::bytea,
             ${begin.async}, ${begin.async}, clock.time, ${begin.lockedUntil}, ${begin.dueAt},
             ${afterRetention('clock.time', '$9')}, ${afterRetention('clock.time', '$9')}
      from (select clock_timestamp() as time) as clock
      where not exists (select from existing)
      on conflict (tenant, id) do nothing
      returning *
    )${audited(tables, 'inserted', { what: begin.what, detail: 'null::text' })}
    select true as inserted, ${databaseNow}, ${recordColumns} from inserted
    union all
    select false as inserted, ${databaseNow}, ${recordColumns} from existing`

  return async (db: Queryable, id: string, claim: KeyClaim): Promise<Found | undefined> => {
    const [row] = await db.query(text, [
      claim.tenant,
      id,
      claim.scope,
      claim.key,
      claim.owner,
      claim.afterFailure,
      claim.fingerprint?.bytes ?? null,
      claim.request,
      retentionValue(claim.retention.ms),
      ...begin.values(claim),
    ])
    return row && { record: recordOf(row), inserted: row.inserted, now: row.now }
  }
}
