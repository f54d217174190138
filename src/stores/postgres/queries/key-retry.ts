import { storableText } from '../../../core/storable-text.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { waitsAnewUntil } from './key-row.js'
import type { SeenKey } from './key-summary.js'
import { noted } from './together.js'

/**
 * A key that waits becomes due now, with all its attempts before it. A parked one waits again, but only if no call is in doubt and its
 * work may run again after a failure: nobody's word on the outcome is needed then. Of two people who say so one is told that it
 * changed: the fence rises. False if it is not so, or not any more.
 */
export function keyRetry(tables: Tables) {
  const write = `
    update ${tables.keys}
    set state = 'pending', fence = fence + 1, waiting = true, due_at = clock_timestamp(), attempts = 0,
        expires_at = ${waitsAnewUntil},
        reason = case when state = 'parked' then left($5::text || coalesce(' (it was parked: ' || reason || ')', ''), 500) else reason end,
        answer_status = null, answer_headers = null, answer_body = null, answer_omitted_bytes = null
    where tenant = $1 and id = $2::uuid and incarnation = $3::uuid and fence = $4
      and (state = 'pending' or (state = 'parked' and parked_step is null and after_failure = 'rerun'))
    returning tenant, id, incarnation, fence, $5::text as note`
  const text = noted({ ...tables, audit: tables.auditTable }, write, { what: `'retried'`, detail: 'note' }, 'fence')

  return async (db: Queryable, { tenant, id, incarnation, fence }: SeenKey, note: string): Promise<boolean> =>
    (await db.query(text, [tenant, id, incarnation, fence, storableText(note)])).length > 0
}
