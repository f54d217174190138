import { isUuid } from '../../core/key.js'
import type { OutboxStore } from '../../core/store.js'
import { arrayLiteral } from './batching/array-literal.js'
import type { Queryable } from './connections/connection.js'
import { jobsDead } from './queries/jobs-dead.js'
import { jobsResolve } from './queries/jobs-resolve.js'
import { jobsSettle } from './queries/jobs-settle.js'
import { jobsTake } from './queries/jobs-take.js'
import { jobsTakeDistributed } from './queries/jobs-take-distributed.js'
import type { Tables } from './tables.js'

/** The verbs of the relay: one statement to take jobs, one to settle them. */
export function postgresOutbox(tables: Tables, ask: <T>(verb: (db: Queryable) => Promise<T>) => Promise<T>): OutboxStore {
  const take = tables.distributed ? jobsTakeDistributed(tables) : jobsTake(tables)
  const settle = jobsSettle(tables)
  const dead = jobsDead(tables)
  const resolve = jobsResolve(tables)
  return {
    jobsTake: ({ token, leaseMs, limit, names, heldByDead, from, group }) =>
      ask((db) => take(db, [token, leaseMs, limit, names ? arrayLiteral(names) : null, heldByDead, from ?? null, group ?? null])),
    jobsSettle: ({ jobs }) => (jobs.length === 0 ? Promise.resolve([]) : ask((db) => settle(db, jobs))),
    jobsDead: ({ limit, after }) => ask((db) => dead(db, limit, after)),
    // Ids come from people, who may have mistyped them.
    jobsResolve: ({ jobs, as }) =>
      ask((db) =>
        resolve(
          db,
          jobs.filter(({ id }) => isUuid(id)),
          as,
        ),
      ),
  }
}
