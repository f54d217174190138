import type { KeyRelease } from '../../../core/store.js'
import type { Tables } from '../tables.js'
import { type FencedWriter, fencedWrite } from './fenced-write.js'
import { after } from './key-row.js'

/** Gives the key back unfinished. Its recovery point stays, so the next holder goes on from there. Workers let it rest until it is due. */
export function keyRelease(tables: Tables): FencedWriter<KeyRelease> {
  return fencedWrite(tables, {
    parameters: { why: 'text', due_in_ms: 'float8' },
    assignments: ({ why, due_in_ms }) => `reason = ${why}, waiting = true, due_at = ${after('clock_timestamp()', due_in_ms)}`,
    writeOf: ({ lease, reason, dueInMs = 0, steps }) => ({ lease, state: 'pending', values: [reason ?? null, dueInMs], steps }),
  })
}
