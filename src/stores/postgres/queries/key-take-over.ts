import type { KeyRecord } from '../../../core/record.js'
import type { KeyClaim } from '../../../core/store.js'
import type { Queryable, Row } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { freeKey, thisKey, wasLocked } from './free-key.js'
import { after } from './key-row.js'
import { audited } from './together.js'

/**
 * Takes a key without a holder, with the next fence. The row must still be as it was read and the lease still over, by
 * the database's clock: of two takers one finds it changed, and comes back empty.
 */
export function keyTakeOver(tables: Tables) {
  const asSeen = `key.incarnation = $3::uuid and key.fence = $4 and key.recovery_point is not distinct from $5
        and (key.state = 'pending' or (key.state = 'processing' and key.locked_until <= statement_timestamp()))`
  const text = `
    with ${freeKey(tables, asSeen)}, done as (
      update ${tables.keys} as key
      set state = 'processing', fence = key.fence + 1, owner = $6::uuid,
          locked_until = ${after('statement_timestamp()', '$7')}, due_at = ${after('statement_timestamp()', '$7')},
          waiting = false, attempts = key.attempts + case when $8::boolean then 1 else 0 end
      from free where ${thisKey}
      returning key.tenant, key.id, key.incarnation, key.fence, key.attempts, key.reason
    )${audited(tables, 'done', { what: `'taken-over'`, detail: 'reason' })}
    select done.fence, done.attempts, done.fence is null and ${wasLocked(tables, asSeen)} as locked
    from (select) as always left join done on true`

  return async (db: Queryable, seen: KeyRecord, { owner, leaseMs, worker }: KeyClaim): Promise<KeyRecord | 'locked' | undefined> => {
    const values = [seen.tenant, seen.id, seen.incarnation, seen.fence, seen.recoveryPoint, owner, leaseMs, worker]
    const [{ fence, attempts, locked }] = (await db.query(text, values)) as [Row]
    if (fence === null) return locked ? 'locked' : undefined
    return { ...seen, state: 'processing', fence, attempts, owner }
  }
}
