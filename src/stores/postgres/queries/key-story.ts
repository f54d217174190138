import type { Answer } from '../../../core/answer.js'
import type { AuditEntry, StepRecord } from '../../../core/store.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { answerColumns, answerOf, databaseNow, wholeMs } from './key-row.js'
import { type KeySummary, summaryColumns, summaryOf } from './key-summary.js'

/** Everything that is known of this life of a key, as of one moment. */
export interface KeyStory {
  /** The database's time when it was read. */
  readonly now: number
  readonly key: KeySummary
  /** As it is stored: it may be sealed. */
  readonly answer: Answer | null
  /** Null if the request was not kept. */
  readonly requestBytes: number | null
  readonly steps: readonly (StepRecord & { readonly fence: number; readonly at: number })[]
  /** Whole if the store keeps a trail; what operators did is noted in any case. */
  readonly trail: readonly Omit<AuditEntry, 'incarnation'>[]
  /** Jobs of this key that are not delivered. */
  readonly jobs: readonly { readonly id: string; readonly name: string; readonly at: number }[]
}

/** One statement, so that key, steps and trail are of the same moment. Lists come as JSON: drivers disagree about arrays of records. */
export function keyStory({ keys, steps, jobs, auditTable }: Tables) {
  const list = (table: string, members: Record<string, string>, order: string) => `
      (select coalesce(json_agg(json_build_object(${Object.entries(members)
        .map(([name, expression]) => `'${name}', ${expression}`)
        .join(', ')}) order by ${order}), '[]')::text
       from ${table} as item
       where item.tenant = keys.tenant and item.key_id = keys.id and item.incarnation = keys.incarnation)`
  const step = { name: 'name', kind: 'kind', position: 'position', result: 'result', fence: 'fence', at: wholeMs('recorded_at') }
  const note = { what: 'what', at: wholeMs('at'), fence: 'fence', detail: 'detail' }
  const job = { id: 'id', name: 'name', at: wholeMs('staged_at') }
  const text = `
    select ${databaseNow}, ${summaryColumns}, ${answerColumns}, octet_length(request) as request_bytes,
      ${list(steps, step, 'item.position, item.recorded_at')} as steps,
      ${list(auditTable, note, 'item.at')} as trail,
      ${list(jobs, job, 'item.staged_at')} as jobs
    from ${keys} where tenant = $1 and id = $2::uuid`

  return async (db: Queryable, { tenant, id }: { tenant: string; id: string }): Promise<KeyStory | undefined> => {
    const [row] = await db.query(text, [tenant, id])
    if (!row) return undefined
    return {
      now: row.now,
      key: summaryOf(row),
      answer: row.answer_status === null ? null : answerOf(row),
      requestBytes: row.request_bytes,
      steps: JSON.parse(row.steps),
      trail: JSON.parse(row.trail),
      jobs: JSON.parse(row.jobs),
    }
  }
}
