import type pg from 'pg'
import { seedKeys } from '../workers/campaign-keys.js'
import { tenant } from './flows.js'

/** Leaves what a process that was killed does: a key that it held, one that waits for a worker, and one that has expired since. */
export async function leaveWork(pool: pg.Pool, name: string): Promise<void> {
  await seedKeys(pool, tenant, 'operation', [
    { key: `abandoned-${name}`, state: 'processing' },
    { key: `waiting-${name}`, state: 'pending' },
  ])
  await seedKeys(pool, 'others', 'rerun', [{ key: `expired-${name}`, state: 'complete', expired: true }])
}

/** Whether all of them are complete or parked. */
export async function isEnded(pool: pg.Pool, ...keys: readonly string[]): Promise<boolean> {
  const { rows } = await pool.query<{ count: number }>(
    `select count(*)::integer as count from oncekey.keys where tenant = $1 and key = any ($2) and state in ('complete', 'failed', 'parked')`,
    [tenant, keys],
  )
  return rows[0]?.count === keys.length
}

/** How many of those that `leaveWork()` left are still there. */
export async function expiredKeys(pool: pg.Pool): Promise<number> {
  return (await pool.query(`select from oncekey.keys where tenant = 'others'`)).rows.length
}

/** How many jobs of a key have not been delivered and settled. A key that is not complete has yet to stage its own. */
export async function unsettledJobs(pool: pg.Pool, key: string): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    `select (select count(*) from oncekey.jobs where payload::json ->> 'key' = $2)::integer
       + (select count(*) from oncekey.keys where tenant = $1 and key = $2 and state <> 'complete')::integer as count`,
    [tenant, key],
  )
  return rows[0]?.count ?? 0
}
