import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { deliverableSince } from './job-row.js'

/**
 * How long the oldest job could have been delivered. A job that is delivered is gone from the table, so this reads what is left. Those that
 * were given up do not count: they wait for a person.
 */
export function jobsLag({ jobs }: Tables) {
  const text = `
    select greatest(0, coalesce(extract(epoch from clock_timestamp() - min(${deliverableSince})) * 1000, 0))::float8 as lag_ms
    from ${jobs} where dead_at is null`

  return async (db: Queryable): Promise<number> => {
    const [row] = await db.query(text, [])
    return row?.lag_ms ?? 0
  }
}
