import type { KeyRelease } from '../../../core/store.js'
import type { Tables } from '../tables.js'
import { type FencedWriter, fencedWrite } from './fenced-write.js'
import { after } from './key-row.js'

/** Gives the key back unfinished. Its recovery point stays, so the next holder goes on from there. Workers let it rest until it is due. */
export function keyRelease(tables: Tables): FencedWriter<KeyRelease> {
  return fencedWrite(tables, {
    stateOf: () => 'pending',
    columns: {
      why: { type: 'text', of: ({ reason }) => reason ?? null },
      due_in_ms: { type: 'float8', of: ({ dueInMs = 0 }) => dueInMs },
    },
    assignments: ({ why, due_in_ms }) => `reason = ${why}, waiting = true, due_at = ${after('statement_timestamp()', due_in_ms)}`,
  })
}
