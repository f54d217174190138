import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'

/** How long the oldest job has waited for its delivery. A job that is delivered is gone from the table, so this reads what is left. */
export function jobsLag({ jobs }: Tables) {
  const text = `
    select greatest(0, coalesce(extract(epoch from clock_timestamp() - min(staged_at)) * 1000, 0))::float8 as lag_ms from ${jobs}`

  return async (db: Queryable): Promise<number> => {
    const [row] = await db.query(text, [])
    return row?.lag_ms ?? 0
  }
}
