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
