import type { KeysSweep, Sweep } from '../../../core/store.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { keysTakeBack } from './keys-take-back.js'
import { upkeepTurn } from './upkeep-turn.js'

/**
 * Looks at keys in the order in which they are due, each once: those that are finished are passed over for good, those that are held are
 * due again when their lease is over, and those whose holder is gone are taken from it. There is no index on state or lease, because it
 * would cost every finish its heap-only update (docs/decisions/0002); there is one on `due_at`, which a finish does not touch.
 */
export function keysSweep(tables: Tables) {
  const turn = upkeepTurn(tables)
  const look = lookAtDueKeys(tables)
  const takeBack = keysTakeBack(tables)

  return async (db: Queryable, { holder, turnMs, limit, after }: KeysSweep): Promise<Sweep> => {
    const frontier = await turn.take(db, holder, turnMs)
    if (frontier === undefined) return { turn: false }
    const from = after ?? frontier
    let page = await look(db, from, limit)
    // So many are due at the same moment that it fills a page, as after a migration: then the page must be larger than that.
    for (let larger = limit * 10; page.isFull && page.last === from; larger *= 10) page = await look(db, from, larger)
    const { swept, seen } = await takeBack(db, page.held)
    // Rows that were locked just now, or changed under our hands, are looked at again.
    const missed = page.held.find(({ id }) => !seen.has(id))
    await turn.advance(db, holder, missed?.due_at ?? page.last)
    return { turn: true, swept, lookedUpTo: page.isFull ? page.last : null }
  }
}

/** What is due from that moment on, in its order: those that are held, and how far it has looked. */
function lookAtDueKeys({ keys }: Tables) {
  const clock = 'select clock_timestamp()::text as now'
  const text = `
    with page as materialized (
      select tenant, id, state, due_at from ${keys}
      where due_at >= $1::text::timestamptz and due_at <= $2::text::timestamptz
      order by due_at limit $3
    )
    select tenant, id::text as id, due_at::text as due_at, row_number() over (order by due_at)::integer as place, null as count
    from page where state = 'processing'
    union all
    select null, null, max(due_at)::text, null, count(*)::integer from page`

  return async (db: Queryable, from: string, limit: number) => {
    const now = (await db.query(clock, []))[0]?.now as string
    const rows = await db.query(text, [from, now, limit])
    const summary = rows.find(({ count }) => count !== null)
    const isFull = summary?.count === limit
    const held = rows.filter(({ count }) => count === null).toSorted((one, other) => one.place - other.place)
    return { isFull, held, last: isFull ? (summary?.due_at as string) : now }
  }
}
