import type { AuditEntry } from '../../../core/store.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'

export function auditRead({ auditTable }: Tables) {
  const text = `
    select what, (extract(epoch from at) * 1000)::float8 as at, incarnation::text as incarnation, fence, detail
    from ${auditTable} where tenant = $1 and key_id = $2::uuid order by at`

  return async (db: Queryable, tenant: string, id: string): Promise<AuditEntry[]> => (await db.query(text, [tenant, id])) as AuditEntry[]
}
