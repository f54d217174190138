import type { EndedKey, UpkeepStore } from '../../../core/store.js'
import { neverStarted, nobodyCame, outcomeUnknown } from '../../../core/system-answers.js'
import type { Queryable } from '../connections/connection.js'
import { translated } from '../driver-errors.js'
import type { Tables } from '../tables.js'
import { byHalves, isOfOneRow } from './halving.js'
import { keyList, keyListValue } from './key-list.js'
import { answerValues } from './key-row.js'
import { endedKey } from './keys-take-back.js'
import { audited } from './together.js'

/** Backoffs are at most an hour, and leases are renewed by heartbeats. A key that is due later than this was made when the clock was ahead. */
const latestDue = `interval '65 minutes'`

type KeysTimeOut = Parameters<UpkeepStore['keysTimeOut']>[0]

/** A statement that writes returns at most 64 KiB. */
const mostBytes = 48 * 1024
const bytesOfRow = '150 + octet_length(tenant) + octet_length(scope) + octet_length(key)'

/** How many overlooked keys are made due in one statement. */
const mostOverlooked = 1_000

/**
 * Where tables are distributed, keys are found first and changed by name: other processes may find the same ones, and change them first. This
 * is how often a process then looks again.
 */
export const mostLooks = 20

/**
 * Ends keys that wait past their retention. Nothing can have been done of a key that was never claimed (fence 0): it fails. Any other is
 * parked; one that a worker could run only a day later, so that workers which are down for the night find it in the morning.
 *
 * Also makes keys due that the sweeper and the completer would overlook: those whose lease ended long ago and that are past their
 * retention, and those that are due too far in the future, because the database's clock was ahead and was set back.
 */
export function keysTimeOut(tables: Tables) {
  const { keys, skippingLocked, distributed } = tables
  const overdue = `key.waiting and key.expires_at <= case when key.fence = 0 or key.request is null
      then statement_timestamp() else statement_timestamp() - interval '24 hours' end`
  const find = `select key.tenant, key.id::text as id, key.scope, key.key from ${keys} as key where ${overdue} order by key.expires_at limit $1 offset $2`
  // As many as the statement may return. The others are found by the next call.
  const findAndLock = `
      select tenant, id from (
        select locked.*, sum(${bytesOfRow}) over (order by tenant, id) as bytes_so_far from (
          select key.tenant, key.id, key.scope, key.key from ${keys} as key where ${overdue} order by key.expires_at limit $1
          ${skippingLocked}
        ) as locked
      ) as sized where bytes_so_far <= ${mostBytes}`
  const named = `${keyList('$1')} join ${keys} as key on key.tenant = wanted.tenant and key.id = wanted.id`
  const byName = `
      select key.tenant, key.id from ${named} where ${overdue}
      ${skippingLocked}`
  const write = (found: string, returned: string) => `
    with found as materialized (${found}
    ), ended as (
      update ${keys} as key
      set state = case when key.fence = 0 then 'failed' else 'parked' end, waiting = false, fence = key.fence + 1, reason = $2,
          answer_status = case when key.fence = 0 then $3::smallint else $7::smallint end,
          answer_headers = case when key.fence = 0 then $4::text else $8::text end,
          answer_body = case when key.fence = 0 then $5::bytea else $9::bytea end,
          answer_omitted_bytes = case when key.fence = 0 then $6::integer else $10::integer end,
          expires_at = (statement_timestamp() at time zone 'UTC' + (key.reap_after - key.created_at)) at time zone 'UTC'
      from found
      where key.tenant = found.tenant and key.id = found.id and ${overdue}
      returning key.*
    )${audited(tables, 'ended', { what: 'state', detail: 'reason' })}
    select ${returned} from ended`
  const whole = write(findAndLock, 'tenant, scope, key, fence, state, reason')
  const writeNamed = write(byName, 'id::text as id, fence, state, reason')
  const unheardOf = `key.state = 'processing' and key.locked_until <= statement_timestamp() - interval '1 minute'`
  const pastRetention = `key.reap_after < 'infinity' and key.reap_after <= statement_timestamp()
      and ${unheardOf} and key.due_at <= statement_timestamp() - interval '1 minute'`
  const dueTooLate = `key.due_at > statement_timestamp() + ${latestDue} and (key.waiting or ${unheardOf})`
  const makeDue = (which: string, from = `${keys} as key where ${which} limit ${mostOverlooked}`) => `
    with found as materialized (
      select key.tenant, key.id from ${from}
      ${skippingLocked}
    )
    update ${keys} as key set due_at = statement_timestamp() from found
    where key.tenant = found.tenant and key.id = found.id and ${which}`
  const values = [nobodyCame, ...answerValues(neverStarted), ...answerValues(outcomeUnknown)]

  return async (db: Queryable, wanted: KeysTimeOut): Promise<EndedKey[]> => {
    for (const which of [pastRetention, dueTooLate]) await makeAllDue(db, which)
    if (distributed) return endByName(db, wanted)
    try {
      return (await db.query(whole, [wanted.limit, ...values])).map(endedKey)
    } catch (error) {
      if (!isOfOneRow(error)) throw error
      return endByName(db, wanted)
    }
  }

  async function endByName(db: Queryable, { limit, onRefused = () => {} }: KeysTimeOut): Promise<EndedKey[]> {
    let passed = 0
    for (let looks = 0; looks < mostLooks; looks += 1) {
      const rows = await db.query(find, [limit, passed])
      if (rows.length === 0) break
      const { results, refused } = await byHalves(rows, (part) => db.query(writeNamed, [keyListValue(part), ...values]))
      for (const { items, error } of refused) {
        passed += items.length
        onRefused(translated(error, ''))
      }
      const ended = results.flat()
      const named = new Map(rows.map((row) => [row.id as string, row]))
      if (ended.length > 0) return ended.map((row) => endedKey({ ...named.get(row.id), ...row }))
    }
    return []
  }

  async function makeAllDue(db: Queryable, which: string): Promise<void> {
    try {
      await db.query(makeDue(which), [])
    } catch (error) {
      if (!isOfOneRow(error)) throw error
      const rows = await db.query(`select key.tenant, key.id::text as id from ${keys} as key where ${which} limit ${mostOverlooked}`, [])
      await byHalves(rows, (part) => db.query(makeDue(which, `${named} where ${which}`), [keyListValue(part)]))
    }
  }
}
