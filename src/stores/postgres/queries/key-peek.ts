import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { type Found, foundIn } from './key-claim.js'
import { databaseNow, recordColumns } from './key-row.js'

/** Looks at a key as a claim would, and leaves it alone. */
export function keyPeek({ keys }: Tables) {
  const text = `select ${databaseNow}, ${recordColumns()} from ${keys} where tenant = $1 and id = $2::uuid`

  return async (db: Queryable, tenant: string, id: string): Promise<Found | undefined> => {
    const [row] = await db.query(text, [tenant, id])
    return row && foundIn(row, row.now)
  }
}
