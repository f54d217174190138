import type { AdvanceResult, KeyFinish } from '../../../core/store.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { fencedWrite } from './fenced-write.js'
import { afterRetention, answerValues, retentionValue } from './key-row.js'

/** Stores the answer of the holder with the newest fence, and nobody else's. */
export function keyFinish(tables: Tables) {
  const write = fencedWrite(
    tables,
    `reason = $7, answer_status = $8, answer_headers = $9, answer_body = $10::bytea, answer_omitted_bytes = $11,
     expires_at = ${expiryAtFinish('$12', '$13', '$14')}`,
    8,
    `$6::text`,
  )

  return (db: Queryable, { lease, state, answer, retention, reason, steps, jobs }: KeyFinish): Promise<AdvanceResult> =>
    write(db, {
      lease,
      state,
      values: [reason ?? null, ...answerValues(answer), retention.from, retentionValue(retention.ms), retentionValue(retention.floorMs)],
      steps,
      jobs,
    })
}

/** When a key that finishes now expires: as its retention says, but not before the floor. `core/retention.ts` in SQL. */
export function expiryAtFinish(from: string, ms: string, floorMs: string): string {
  const start = `case when ${from} = 'creation' then created_at else clock_timestamp() end`
  return `greatest(${afterRetention(`(${start})`, ms)}, ${afterRetention('clock_timestamp()', floorMs)})`
}
