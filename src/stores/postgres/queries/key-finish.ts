import type { KeyFinish } from '../../../core/store.js'
import type { Tables } from '../tables.js'
import { type FencedWriter, fencedWrite } from './fenced-write.js'
import { afterRetention, afterRetentionOf, answersOf, retentionValue } from './key-row.js'

/** Stores the answer of the holder with the newest fence only. */
export function keyFinish(tables: Tables): FencedWriter<KeyFinish> {
  return fencedWrite(tables, {
    stateOf: ({ state }) => state,
    columns: {
      why: { type: 'text', of: ({ reason }) => reason ?? null },
      ...answersOf<KeyFinish>(),
      kept_from: { type: 'text', of: ({ retention }) => retention.from },
      kept_ms: { type: 'float8', of: ({ retention }) => retentionValue(retention.ms) },
      floor_ms: { type: 'float8', of: ({ retention }) => retentionValue(retention.floorMs) },
    },
    assignments: ({ why, status, headers, body, omitted, kept_from, kept_ms, floor_ms }) =>
      `reason = ${why}, answer_status = ${status}, answer_headers = ${headers}, answer_body = ${body}, answer_omitted_bytes = ${omitted},
       expires_at = ${expiryAtFinish(kept_from, kept_ms, floor_ms)}`,
  })
}

/** When a key that finishes now expires: as its retention says, but not before the floor. `core/retention.ts` in SQL. */
export function expiryAtFinish(from: string, ms: string, floorMs: string): string {
  const start = `case when ${from} = 'creation' then created_at else statement_timestamp() end`
  return `greatest(${afterRetentionOf(start, ms)}, ${afterRetention('statement_timestamp()', floorMs)})`
}
