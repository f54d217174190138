import type { KeyRecord } from '../../../core/record.js'
import type { Queryable } from '../connections/connection.js'
import { recordColumns, recordOf } from './key-row.js'

export function keyRead(keys: string) {
  const text = `select ${recordColumns} from ${keys} where tenant = $1 and id = $2::uuid`

  return async (db: Queryable, tenant: string, id: string): Promise<KeyRecord | undefined> => {
    const [row] = await db.query(text, [tenant, id])
    return row && recordOf(row)
  }
}
