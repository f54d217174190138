import type { EndedKey } from '../../../core/store.js'
import { neverStarted, nobodyCame, outcomeUnknown } from '../../../core/system-answers.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { keyList, keyListValue } from './key-list.js'
import { answerValues } from './key-row.js'
import { endedKey } from './keys-take-back.js'
import { audited } from './together.js'

/**
 * Ends keys that wait past their retention. Nothing can have been done of a key that was never claimed (fence 0): it fails. Any other is
 * parked; one that a worker could run only a day later, so that workers which are down for the night find it in the morning.
 *
 * Also makes held keys due that the sweeper must have overlooked: those whose lease ended long ago, past their retention.
 */
export function keysTimeOut(tables: Tables) {
  const { keys, skippingLocked } = tables
  const overdue = `key.waiting and key.expires_at + case when key.fence = 0 or key.request is null then interval '0' else interval '1 day' end
      <= clock_timestamp()`
  const find = `select key.tenant, key.id::text as id from ${keys} as key where ${overdue} order by key.expires_at limit $1`
  const write = `
    with found as materialized (
      select key.tenant, key.id from ${keyList('$1')} join ${keys} as key on key.tenant = wanted.tenant and key.id = wanted.id
      where ${overdue}
      order by key.tenant, key.id
      ${skippingLocked}
    ), ended as (
      update ${keys} as key
      set state = case when key.fence = 0 then 'failed' else 'parked' end, waiting = false, fence = key.fence + 1, reason = $2,
          answer_status = case when key.fence = 0 then $3::smallint else $7::smallint end,
          answer_headers = case when key.fence = 0 then $4::text else $8::text end,
          answer_body = case when key.fence = 0 then $5::bytea else $9::bytea end,
          answer_omitted_bytes = case when key.fence = 0 then $6::integer else $10::integer end,
          expires_at = clock_timestamp() + (key.reap_after - key.created_at)
      from found
      where key.tenant = found.tenant and key.id = found.id and ${overdue}
      returning key.*
    )${audited(tables, 'ended', { what: 'state', detail: 'reason' })}
    select tenant, scope, key, fence, state, reason from ended`
  const unheardOf = `key.state = 'processing' and key.locked_until <= clock_timestamp() - interval '1 minute'
      and key.due_at <= clock_timestamp() - interval '1 minute'`
  const overlooked = `
    with found as materialized (
      select key.tenant, key.id from ${keys} as key
      where key.reap_after < 'infinity' and key.reap_after <= (select clock_timestamp()) and ${unheardOf}
      order by key.tenant, key.id
      ${skippingLocked}
    )
    update ${keys} as key set due_at = clock_timestamp() from found
    where key.tenant = found.tenant and key.id = found.id and ${unheardOf}`

  return async (db: Queryable, limit: number): Promise<EndedKey[]> => {
    await db.query(overlooked, [])
    const rows = await db.query(find, [limit])
    if (rows.length === 0) return []
    const values = [...answerValues(neverStarted), ...answerValues(outcomeUnknown)]
    return (await db.query(write, [keyListValue(rows), nobodyCame, ...values])).map(endedKey)
  }
}
