import type { AdvanceResult, KeyRelease } from '../../../core/store.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { fencedWrite } from './fenced-write.js'
import { after } from './key-row.js'

/** Gives the key back unfinished. Its recovery point stays, so the next holder goes on from there. Workers let it rest until it is due. */
export function keyRelease(tables: Tables) {
  const write = fencedWrite(tables, `reason = $7, waiting = true, due_at = ${after('clock_timestamp()', '$8')}`, 2, `'released'`)

  return (db: Queryable, { lease, reason, dueInMs = 0, steps }: KeyRelease): Promise<AdvanceResult> =>
    write(db, { lease, state: 'pending', values: [reason ?? null, dueInMs], steps })
}
