import type { EndedKey } from '../../../core/store.js'
import { holderGone, outcomeUnknown } from '../../../core/system-answers.js'
import type { Queryable, Row } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { byHalves } from './halving.js'
import { keyList, keyListValue } from './key-list.js'
import { answerValues } from './key-row.js'
import { audited } from './together.js'

/** An answer that the sweeper stores is kept at least this long, as `retentionFloor` has it. */
const floor = `interval '1 hour'`

/**
 * Takes keys from holders that are gone: they become pending, or what their `afterFailure` says. Those whose lease is alive are due again when
 * it is over. A holder that comes back in the last moment keeps its key; the fence rises, so
 * that one that comes later cannot write.
 */
export function keysTakeBack(tables: Tables) {
  const { keys, skippingLocked } = tables
  const mustNotRun = `key.after_failure in ('store', 'park')`
  const ifEnded = (value: string) => `case when ${mustNotRun} then ${value} end`
  const text = `
    with held as materialized (
      select key.tenant, key.id, key.locked_until <= statement_timestamp() as is_over
      from ${keyList('$1')} join ${keys} as key on key.tenant = wanted.tenant and key.id = wanted.id
      where key.state = 'processing'
      order by key.tenant, key.id
      ${skippingLocked}
    ), swept as (
      update ${keys} as key
      set state = case key.after_failure when 'store' then 'failed' when 'park' then 'parked' else 'pending' end,
          waiting = not ${mustNotRun}, due_at = statement_timestamp(), locked_until = null, reason = $2,
          fence = key.fence + 1,
          answer_status = ${ifEnded('$3::smallint')}, answer_headers = ${ifEnded('$4::text')},
          answer_body = ${ifEnded('$5::bytea')}, answer_omitted_bytes = ${ifEnded('$6::integer')},
          expires_at = case key.after_failure when 'store' then greatest(key.expires_at, statement_timestamp() + ${floor}) else key.expires_at end
      from held
      where held.is_over and key.tenant = held.tenant and key.id = held.id
        and key.state = 'processing' and key.locked_until <= statement_timestamp()
      returning key.*
    ), held_on as (
      update ${keys} as key set due_at = key.locked_until from held
      where not held.is_over and key.tenant = held.tenant and key.id = held.id and key.state = 'processing'
      returning key.id
    )${audited(tables, 'swept', { what: `case state when 'pending' then 'swept' else state end`, detail: `reason || coalesce(' (' || $7 || ')', '')` })}
    select id::text as id, fence, state from swept
    union all
    select id::text as id, null, null from held_on`

  /** `held`: with their names, which the write does not return. `note`: who wants it, for the trail. `errors`: of keys that were refused, which are not among those that were `seen`. */
  return async (db: Queryable, held: readonly Row[], note: string | null = null): Promise<TakenBack> => {
    if (held.length === 0) return { swept: [], seen: new Set(), errors: [] }
    const values = [holderGone, ...answerValues(outcomeUnknown), ...(tables.audit ? [note] : [])]
    const { results, refused } = await byHalves(held, (part) => db.query(text, [keyListValue(part), ...values]))
    const rows = results.flat()
    const named = new Map(held.map((row) => [row.id as string, row]))
    const swept = rows.filter(({ state }) => state !== null).map((row) => endedKey({ ...named.get(row.id), ...row, reason: holderGone }))
    return { swept, seen: new Set(rows.map(({ id }) => id)), errors: refused.map(({ error }) => error) }
  }
}

interface TakenBack {
  readonly swept: readonly EndedKey[]
  readonly seen: ReadonlySet<string>
  readonly errors: readonly unknown[]
}

export function endedKey({ tenant, scope, key, fence, state, reason }: Row): EndedKey {
  return { tenant, scope, key, fence, to: state, reason }
}
