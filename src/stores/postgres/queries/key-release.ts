import type { AdvanceResult, KeyRelease } from '../../../core/store.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { fencedWrite } from './fenced-write.js'

/** Gives the key back unfinished. Its recovery point stays, so the next holder goes on from there. */
export function keyRelease(tables: Tables) {
  const write = fencedWrite(tables, 'reason = $7', 1, `'released'`)

  return (db: Queryable, { lease, reason, steps }: KeyRelease): Promise<AdvanceResult> =>
    write(db, { lease, state: 'pending', values: [reason ?? null], steps })
}
