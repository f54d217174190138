import { storableText } from '../../../core/storable-text.js'
import type { Bounded } from '../bounded.js'
import type { Tables } from '../tables.js'
import { byHand, freeKey, thisKey, whatBecame } from './free-key.js'
import { waitsAnewUntil } from './key-row.js'
import type { SeenKey } from './key-summary.js'
import { audited } from './together.js'

/**
 * A key that waits becomes due now, with all its attempts before it. A parked one waits again, but only if no call is in doubt and its
 * work may run again after a failure: no operator has to know the outcome then. Of two people who say so one is told that it
 * changed: the fence rises. False if it is not so, or not any more.
 */
export function keyRetry(tables: Tables) {
  const asSeen = `key.incarnation = $3::uuid and key.fence = $4
      and (key.state = 'pending' or (key.state = 'parked' and key.parked_step is null and key.after_failure = 'rerun'))`
  const write = `
    update ${tables.keys} as key
    set state = 'pending', fence = fence + 1, waiting = true, due_at = statement_timestamp(), attempts = 0,
        expires_at = ${waitsAnewUntil},
        reason = case when state = 'parked' then left($5::text || coalesce(' (it was parked: ' || reason || ')', ''), 500) else reason end,
        answer_status = null, answer_headers = null, answer_body = null, answer_omitted_bytes = null
    from free where ${thisKey}
    returning key.tenant, key.id, key.incarnation, key.fence`
  const text = `with ${freeKey(tables, asSeen)}, done as (${write}
    )${audited({ ...tables, audit: tables.auditTable }, 'done', { what: `'retried'`, detail: '$5::text' })}
    ${whatBecame(tables, asSeen)}`

  return (db: Bounded, { tenant, id, incarnation, fence }: SeenKey, note: string): Promise<boolean> =>
    byHand(db, () => db.query(text, [tenant, id, incarnation, fence, storableText(note)]))
}
