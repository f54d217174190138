import { holderGone } from '../../../core/system-answers.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { audited } from './together.js'

/**
 * Undoes claims by their tokens, in one statement. A key that one of them began is deleted, also if its lease has ended since and the key was taken
 * back: no work of it has run. Except a `failed` one: a retry may have been given its answer. A key that it took over waits for the next holder.
 * A request that was left to workers has no holder, and stays.
 */
export function keyWithdraw(tables: Tables) {
  const { keys, skippingLocked } = tables
  const claims = 'json_to_recordset($1::text::json) as claim (position integer, tenant text, id uuid, owner uuid)'
  const wasTakenBack = `key.fence = 2 and key.reason = $2 and key.state in ('pending', 'parked')`
  const isOwn = (owner: string) => `key.owner = ${owner} and (key.state = 'processing'
        or (key.incarnation = ${owner} and ${wasTakenBack}))`
  const own = `${claims} join ${keys} as key on key.tenant = claim.tenant and key.id = claim.id and ${isOwn('claim.owner')}`
  const isFree = `key.tenant = free.tenant and key.id = free.id and ${isOwn('free.owner')}`
  const text = `
    with free as materialized (
      select key.tenant, key.id, claim.position, claim.owner from ${own}
      order by key.tenant, key.id
      ${skippingLocked}
    ), forgotten as (
      delete from ${keys} as key using free where ${isFree} and key.incarnation = free.owner
      returning key.tenant, key.id, key.incarnation, key.fence, free.position
    ), given_back as (
      update ${keys} as key
      set state = 'pending', locked_until = null, waiting = true, due_at = statement_timestamp(), reason = 'claimed too late'
      from free where ${isFree} and key.incarnation <> free.owner
      returning key.tenant, key.id, key.incarnation, key.fence, free.position
    ), done as (
      select * from forgotten union all select * from given_back
    )${audited(tables, 'done', { what: `'withdrawn'`, detail: 'null::text' })}
    select done.position, true as done from done
    union all
    select claim.position, false from ${own} where not exists (select from done where done.position = claim.position)`

  return async (db: Queryable, claims: readonly WithdrawnClaim[]): Promise<('done' | 'absent' | 'locked')[]> => {
    const sent = claims.map(({ tenant, id, owner }, position) => ({ position, tenant, id, owner }))
    const results = claims.map((): 'done' | 'absent' | 'locked' => 'absent')
    for (const { position, done } of await db.query(text, [JSON.stringify(sent), holderGone])) results[position] = done ? 'done' : 'locked'
    return results
  }
}

export interface WithdrawnClaim {
  readonly tenant: string
  readonly id: string
  /** Its token. */
  readonly owner: string
}
