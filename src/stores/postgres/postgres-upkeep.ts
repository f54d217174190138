import type { Limit, UpkeepStore } from '../../core/store.js'
import type { Queryable } from './connections/connection.js'
import { keysSweep } from './queries/keys-sweep.js'
import { keysTimeOut } from './queries/keys-time-out.js'
import { keysWaiting } from './queries/keys-waiting.js'
import type { Tables } from './tables.js'

/** The verbs of background work. Each is a few statements, and any of them may be the last: what was done so far stays true. */
export function postgresUpkeep(tables: Tables, ask: <T>(verb: (db: Queryable) => Promise<T>, limit?: Limit) => Promise<T>): UpkeepStore {
  const sweep = keysSweep(tables)
  const waiting = keysWaiting(tables)
  const timeOut = keysTimeOut(tables)
  return {
    keysSweep: (params, limit) => ask((db) => sweep(db, params), limit),
    keysWaiting: ({ scopes, limit: most }, limit) =>
      scopes.length === 0 ? Promise.resolve([]) : ask((db) => waiting(db, scopes, most), limit),
    keysTimeOut: (wanted, limit) => ask((db) => timeOut(db, wanted), limit),
  }
}
