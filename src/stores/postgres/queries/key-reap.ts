import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { keyList, keyListValue } from './key-list.js'

/**
 * Deletes expired keys, oldest first, with the results of their steps. The row that is deleted is asked for its state and expiry again:
 * it may have been used anew since it was found. Rows that somebody has locked are left for the next time.
 */
export function keyReap({ keys, steps, skippingLocked }: Tables) {
  const expired = `key.state in ('complete', 'failed') and key.expires_at <= clock_timestamp()`
  const find = `
    select key.tenant, key.id::text as id from ${keys} as key
    where key.reap_after < 'infinity' and key.reap_after <= (select clock_timestamp()) and ${expired}
    order by key.reap_after limit $1`
  const remove = `
    with found as materialized (
      select key.tenant, key.id from ${keyList('$1')} join ${keys} as key on key.tenant = wanted.tenant and key.id = wanted.id
      where ${expired}
      order by key.tenant, key.id
      ${skippingLocked}
    ), deleted as (
      delete from ${keys} as key using found
      where key.tenant = found.tenant and key.id = found.id and ${expired}
      returning key.tenant, key.id
    ), forgotten as (
      delete from ${steps} as step using deleted where step.tenant = deleted.tenant and step.key_id = deleted.id
    )
    select count(*)::integer as count from deleted`

  return async (db: Queryable, limit: number): Promise<number> => {
    const rows = await db.query(find, [limit])
    if (rows.length === 0) return 0
    const [row] = await db.query(remove, [keyListValue(rows)])
    return row?.count ?? 0
  }
}
