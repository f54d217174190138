import type { DeadJob } from '../../../core/store.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { deadMs } from './job-row.js'
import { epochMs } from './key-row.js'

/** Jobs that were given up. There should be few: they are sorted anew for each page. */
export function jobsDead({ jobs }: Tables) {
  const text = `
    select tenant, id::text as id, name, job_group, attempts, last_error,
      ${epochMs('staged_at')} as staged_at, ${deadMs} as dead_at
    from ${jobs} as job
    where dead_at is not null
      and ($2::text is null or (${deadMs}, tenant, id) > ($1::float8, $2::text, $3::text::uuid))
    order by ${deadMs}, tenant, id limit $4`

  return async (db: Queryable, limit: number, after: DeadJob | undefined): Promise<DeadJob[]> => {
    const rows = await db.query(text, [after?.deadAt ?? null, after?.tenant ?? null, after?.id ?? null, limit])
    return rows.map(({ tenant, id, name, job_group, attempts, staged_at, dead_at, last_error }) => {
      return { tenant, id, name, group: job_group, attempts, stagedAt: staged_at, deadAt: dead_at, error: last_error }
    })
  }
}
