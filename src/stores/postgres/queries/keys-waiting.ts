import type { WaitingKey } from '../../../core/store.js'
import { holderGone } from '../../../core/system-answers.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'

/**
 * Keys that wait for a worker, by the small index that only they are in. The first claim gets the key.
 *
 * Scope by scope, and each with a comparison of rows: only that index has their order. With `scope = …` and `order by due_at` the planner may take
 * the index of `due_at` instead, which all keys are in.
 */
export function keysWaiting({ keys, distributed }: Tables) {
  const columns = (of: string) => `${of}.tenant, ${of}.scope, ${of}.key, ${of}.attempts, ${of}.holder_gone`
  const each = `
    select key.tenant, key.scope, key.key, key.attempts, key.reason is not distinct from $3 as holder_gone, key.due_at
    from ${keys} as key
    where key.waiting and key.request is not null`
  const scopes = 'select distinct value collate "C" as scope from json_array_elements_text($1::text::json)'
  const byScope = `
    select ${columns('due')} from (${scopes}) as wanted cross join lateral (${each}
      and (key.scope, key.due_at) >= (wanted.scope, '-infinity'::timestamptz)
      and (key.scope, key.due_at) <= (wanted.scope, statement_timestamp())
      order by key.scope, key.due_at limit $2
    ) as due
    order by due.due_at limit $2`
  // Distributed tables cannot join each scope with its keys.
  const ofAllScopes = `
    select ${columns('due')} from (${each}
      and key.scope in (select json_array_elements_text($1::text::json)) and key.due_at <= statement_timestamp()
      order by key.due_at limit $2
    ) as due
    order by due.due_at`
  const text = distributed ? ofAllScopes : byScope

  return async (db: Queryable, wanted: readonly string[], limit: number): Promise<WaitingKey[]> => {
    const rows = await db.query(text, [JSON.stringify(wanted), limit, holderGone])
    return rows.map(({ tenant, scope, key, attempts, holder_gone }) => ({ tenant, scope, key, attempts, holderGone: holder_gone }))
  }
}
