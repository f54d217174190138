import type { KeyRef } from '../../../core/key.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'

/** Keys that wait for a worker, by the small index that only they are in. Whoever claims one first has it. */
export function keysWaiting({ keys }: Tables) {
  const text = `
    select tenant, scope, key from ${keys}
    where waiting and scope in (select json_array_elements_text($1::text::json)) and due_at <= clock_timestamp() and request is not null
    order by due_at limit $2`

  return async (db: Queryable, scopes: readonly string[], limit: number): Promise<KeyRef[]> =>
    (await db.query(text, [JSON.stringify(scopes), limit])) as KeyRef[]
}
