import type { KeysSweep, Sweep } from '../../../core/store.js'
import type { Queryable, Row } from '../connections/connection.js'
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
    const { now, held, next } = await look(db, from, limit)
    const { swept, seen } = await takeBack(db, held)
    // Rows that were locked just now, or changed under our hands, are looked at again.
    const missed = held.find(({ id }) => !seen.has(id))
    await turn.advance(db, holder, { from, to: missed?.due_at ?? next ?? now })
    return { turn: true, swept, lookedUpTo: next }
  }
}

interface DueKeys {
  /** Up to when there was anything to look at. */
  readonly now: string
  readonly held: readonly Row[]
  /** The moment at which the next page begins; null if this is the last one. */
  readonly next: string | null
}

function lookAtDueKeys({ keys }: Tables) {
  const clock = 'select clock_timestamp()::text as now'
  const columns = 'key.tenant, key.id::text as id, key.state, key.due_at::text as due_at'
  const text = `
    select ${columns} from ${keys} as key
    where key.due_at >= $1::text::timestamptz and key.due_at <= $2::text::timestamptz
    order by key.due_at limit $3`
  const heldAt = `select ${columns} from ${keys} as key where key.due_at = $1::text::timestamptz and key.state = 'processing'`
  const nextMoment = `
    select key.due_at::text as due_at from ${keys} as key
    where key.due_at > $1::text::timestamptz and key.due_at <= $2::text::timestamptz
    order by key.due_at limit 1`

  return async (db: Queryable, from: string, limit: number): Promise<DueKeys> => {
    const now = (await db.query(clock, []))[0]?.now as string
    const rows = await db.query(text, [from, now, limit])
    const [first, last] = [rows[0]?.due_at as string, rows.at(-1)?.due_at as string]
    const held = rows.filter(({ state }) => state === 'processing')
    if (rows.length < limit) return { now, held, next: null }
    if (first !== last) return { now, held, next: last }
    // A page of one moment only would be the same page again: such a moment is looked at as a whole.
    const [next] = await db.query(nextMoment, [last, now])
    return { now, held: await db.query(heldAt, [last]), next: (next?.due_at as string | undefined) ?? null }
  }
}
