import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'

/**
 * Deletes expired keys, oldest first. The row that is deleted is asked for its state and expiry again: it may have been used
 * anew since it was found. Rows that somebody has locked are left for the next time. Step
 * results go with their key.
 */
export function keyReap({ keys, steps }: Tables) {
  const expired = `state in ('complete', 'failed') and expires_at <= clock_timestamp()`
  const text = `
    with found as materialized (
      select tenant, id from ${keys}
      where reap_after <= clock_timestamp() and ${expired}
      order by reap_after limit $1
      for update skip locked
    ), deleted as (
      delete from ${keys} using found
      where ${keys}.tenant = found.tenant and ${keys}.id = found.id and ${expired}
      returning ${keys}.tenant, ${keys}.id
    ), forgotten as (
      delete from ${steps} using deleted where ${steps}.tenant = deleted.tenant and ${steps}.key_id = deleted.id
    )
    select count(*)::integer as count from deleted`

  return async (db: Queryable, limit: number): Promise<number> => {
    const [row] = await db.query(text, [limit])
    return row?.count ?? 0
  }
}
