import type { Queryable } from '../../stores/postgres/connections/connection.js'
import { databaseNow } from '../../stores/postgres/queries/key-row.js'
import { lasting } from '../words.js'
import { type Check, ok, warn } from './check.js'

const tolerableMs = 1_000

/**
 * The difference between this process's clock and the database's. Keys do not depend on it, but logs do. The shortest of a few round trips
 * bounds the error.
 */
export async function clockCheck(db: Queryable, now: () => number): Promise<Check> {
  const looks: { skew: number; error: number }[] = []
  for (let look = 0; look < 3; look += 1) {
    const before = now()
    const [row] = await db.query(`select ${databaseNow}`, [])
    const after = now()
    looks.push({ skew: (before + after) / 2 - (row?.now as number), error: (after - before) / 2 })
  }
  const { skew, error } = looks.reduce((best, look) => (look.error < best.error ? look : best))
  const says = `this machine is ${lasting(skew)} ${skew < 0 ? 'behind' : 'ahead of'} the database`
  if (Math.abs(skew) - error <= tolerableMs) return ok('clock', says)
  return warn('clock', says, 'set both by NTP: keys use the database clock alone, but logs will not line up')
}
