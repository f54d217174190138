import type { EndedKey, KeysSweep, Sweep } from '../../../core/store.js'
import { holderGone, outcomeUnknown } from '../../../core/system-answers.js'
import type { Queryable, Row } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { keyList, keyListValue } from './key-list.js'
import { answerValues } from './key-row.js'
import { audited } from './together.js'
import { upkeepTurn } from './upkeep-turn.js'

/** An answer that the sweeper stores is kept at least this long, as `retentionFloor` has it. */
const floor = `interval '1 hour'`

/**
 * Looks at keys in the order in which they are due, each once: those that are finished are passed over for good, those that are held are
 * due again when their lease is over, and those whose holder is gone are taken from it. There is no index on state or lease, because it
 * would cost every finish its heap-only update (docs/decisions/0002); there is one on `due_at`, which a finish does not touch.
 */
export function keysSweep(tables: Tables) {
  const turn = upkeepTurn(tables)
  const look = lookAtDueKeys(tables)
  const takeBack = takeBackHeldKeys(tables)

  return async (db: Queryable, { holder, turnMs, limit, after }: KeysSweep): Promise<Sweep> => {
    const frontier = await turn.take(db, holder, turnMs)
    if (frontier === undefined) return { turn: false }
    const page = await look(db, after ?? frontier, limit)
    const held = page.rows.filter(({ state }) => state === 'processing')
    const { swept, seen } = await takeBack(db, held)
    // Rows that were locked just now, or changed under our hands, are looked at again.
    const missed = held.find(({ id }) => !seen.has(id))
    const isFull = page.rows.length === limit
    const last = page.rows.at(-1)?.due_at as string | undefined
    await turn.advance(db, holder, missed?.due_at ?? (isFull && last ? last : page.now))
    // A page of one moment only would be the same page again.
    return { turn: true, swept, lookedUpTo: isFull && last && last !== after ? last : null }
  }
}

function lookAtDueKeys({ keys }: Tables) {
  const clock = 'select clock_timestamp()::text as now'
  const text = `
    select key.tenant, key.id::text as id, key.state, key.due_at::text as due_at from ${keys} as key
    where key.due_at >= $1::text::timestamptz and key.due_at <= $2::text::timestamptz
    order by key.due_at limit $3`

  return async (db: Queryable, from: string, limit: number) => {
    const now = (await db.query(clock, []))[0]?.now as string
    return { now, rows: await db.query(text, [from, now, limit]) }
  }
}

function takeBackHeldKeys(tables: Tables) {
  const { keys, skippingLocked } = tables
  const mustNotRun = `key.after_failure in ('store', 'park')`
  const ifEnded = (value: string) => `case when ${mustNotRun} then ${value} end`
  const text = `
    with clock as materialized (select clock_timestamp() as time), held as materialized (
      select key.tenant, key.id, key.locked_until <= (select time from clock) as is_over
      from ${keyList('$1')} join ${keys} as key on key.tenant = wanted.tenant and key.id = wanted.id
      where key.state = 'processing'
      order by key.tenant, key.id
      ${skippingLocked}
    ), swept as (
      update ${keys} as key
      set state = case key.after_failure when 'store' then 'failed' when 'park' then 'parked' else 'pending' end,
          waiting = not ${mustNotRun}, due_at = clock_timestamp(), locked_until = null, reason = $2,
          fence = key.fence + case when ${mustNotRun} then 1 else 0 end,
          answer_status = ${ifEnded('$3::smallint')}, answer_headers = ${ifEnded('$4::text')},
          answer_body = ${ifEnded('$5::bytea')}, answer_omitted_bytes = ${ifEnded('$6::integer')},
          expires_at = case key.after_failure when 'store' then greatest(key.expires_at, clock_timestamp() + ${floor}) else key.expires_at end
      from held
      where held.is_over and key.tenant = held.tenant and key.id = held.id
        and key.state = 'processing' and key.locked_until <= clock_timestamp()
      returning key.*
    ), held_on as (
      update ${keys} as key set due_at = key.locked_until from held
      where not held.is_over and key.tenant = held.tenant and key.id = held.id and key.state = 'processing'
      returning key.id
    )${audited(tables, 'swept', { what: `'swept'`, detail: 'reason' })}
    select id::text as id, tenant, scope, key, fence, state, reason from swept
    union all
    select id::text as id, null, null, null, null, null, null from held_on`

  return async (db: Queryable, held: readonly Row[]): Promise<{ swept: EndedKey[]; seen: Set<string> }> => {
    if (held.length === 0) return { swept: [], seen: new Set() }
    const rows = await db.query(text, [keyListValue(held), holderGone, ...answerValues(outcomeUnknown)])
    const swept = rows.filter(({ state }) => state !== null)
    return { swept: swept.map(endedKey), seen: new Set(rows.map(({ id }) => id)) }
  }
}

export function endedKey({ tenant, scope, key, fence, state, reason }: Row): EndedKey {
  return { tenant, scope, key, fence, to: state, reason }
}
