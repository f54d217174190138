import type { KeyRecord } from '../../../core/record.js'
import type { KeyClaim } from '../../../core/store.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { after, recordColumns, recordOf } from './key-row.js'
import { noted } from './together.js'

/**
 * Takes a key that nobody works on, with the next fence. The row must still be as it was read and the lease still over, by
 * the database's clock: of two takers one finds it changed, and comes back empty.
 */
export function keyTakeOver(tables: Tables) {
  const write = `
    update ${tables.keys}
    set state = 'processing', fence = fence + 1, owner = $6::uuid,
        locked_until = ${after('clock_timestamp()', '$7')}, due_at = ${after('clock_timestamp()', '$7')},
        waiting = false, attempts = attempts + case when $8::boolean then 1 else 0 end
    where tenant = $1 and id = $2::uuid and incarnation = $3::uuid and fence = $4
      and recovery_point is not distinct from $5
      and (state = 'pending' or (state = 'processing' and locked_until <= clock_timestamp()))
    returning *`
  const text = noted(tables, write, { what: `'taken-over'`, detail: 'reason' }, recordColumns)

  return async (db: Queryable, seen: KeyRecord, { owner, leaseMs, worker }: KeyClaim): Promise<KeyRecord | undefined> => {
    const held = [seen.tenant, seen.id, seen.incarnation, seen.fence, seen.recoveryPoint]
    const [row] = await db.query(text, [...held, owner, leaseMs, worker])
    return row && recordOf(row)
  }
}
