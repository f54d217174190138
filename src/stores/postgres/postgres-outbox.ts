import { isUuid } from '../../core/key.js'
import type { Limit, OutboxStore } from '../../core/store.js'
import { arrayLiteral } from './batching/array-literal.js'
import type { Queryable } from './connections/connection.js'
import { jobsDead } from './queries/jobs-dead.js'
import { jobsRead } from './queries/jobs-read.js'
import { jobsResolve } from './queries/jobs-resolve.js'
import { jobsSettle } from './queries/jobs-settle.js'
import { jobsTake } from './queries/jobs-take.js'
import { jobsTakeDistributed } from './queries/jobs-take-distributed.js'
import type { Tables } from './tables.js'

/** The verbs of the relay: one statement to take jobs, one to settle them, and one to read what is large. */
export function postgresOutbox(tables: Tables, ask: <T>(verb: (db: Queryable) => Promise<T>, limit?: Limit) => Promise<T>): OutboxStore {
  const take = tables.distributed ? jobsTakeDistributed(tables) : jobsTake(tables)
  const read = jobsRead(tables)
  const settle = jobsSettle(tables)
  const dead = jobsDead(tables)
  const resolve = jobsResolve(tables)
  return {
    jobsTake: ({ token, leaseMs, limit: most, names, heldByDead, from, group }, limit) => {
      const values = [token, leaseMs, most, names ? arrayLiteral(names) : null, heldByDead, from ?? null, group ?? null] as const
      return ask((db) => take(db, values), limit)
    },
    jobsRead: ({ jobs }, limit) => (jobs.length === 0 ? Promise.resolve([]) : ask((db) => read(db, jobs), limit)),
    jobsSettle: ({ jobs }, limit) => (jobs.length === 0 ? Promise.resolve([]) : ask((db) => settle(db, jobs), limit)),
    jobsDead: ({ limit: most, after }, limit) => ask((db) => dead(db, most, after), limit),
    // Ids come from people, who may have mistyped them.
    jobsResolve({ jobs, as }, limit) {
      const known = jobs.filter(({ id }) => isUuid(id))
      return ask((db) => resolve(db, known, as), limit)
    },
  }
}
