import type { KeysSweep, Sweep } from '../../../core/store.js'
import type { Queryable, Row } from '../connections/connection.js'
import { translated } from '../driver-errors.js'
import type { Tables } from '../tables.js'
import { keyList, keyListValue } from './key-list.js'
import { keysTakeBack } from './keys-take-back.js'
import { momentOf, momentText } from './moment.js'
import { upkeepTurn } from './upkeep-turn.js'

/** More keys than this that are locked, or refused by a trigger, at once are not remembered: then the keys behind them are read again. */
const mostMissed = 1_000

/** What this process knows beyond the frontier, which stays before the first key that was locked. */
interface Looked {
  /** As this process left it. Another one in the table means that this is outdated. */
  frontier: string
  /** Up to here every key was looked at, and is in order unless it is in `missed`. */
  to: string
  missed: readonly Row[]
}

/**
 * Looks at keys in the order in which they are due, each once: those that are finished are passed over for good, those that are held are
 * due again when their lease is over, and those whose holder is gone are taken from it. There is no index on state or lease, because it
 * would cost every finish its heap-only update (docs/decisions/0002); there is one on `due_at`, which a finish does not touch.
 */
export function keysSweep(tables: Tables) {
  const turn = upkeepTurn(tables)
  const { duePage, heldOf } = lookAtDueKeys(tables)
  const takeBack = keysTakeBack(tables)
  let looked: Looked | undefined

  return async (db: Queryable, { holder, turnMs, limit, after, onRefused }: KeysSweep): Promise<Sweep> => {
    const taken = await turn.take(db, holder, turnMs)
    if (taken === undefined) return { turn: false }
    const { frontier, settled } = taken
    if (looked?.frontier !== frontier) looked = { frontier, to: frontier, missed: [] }
    const known = looked
    // Later than that only if the database's clock was set back.
    known.to = earlier(known.to, settled)
    // On the first page, those that were locked the last time, too.
    const again = after === undefined ? await heldOf(db, known.missed) : []
    const from = after ?? known.to
    const { now, held, next } = await duePage(db, from, limit)
    const { swept, seen, errors } = await takeBack(db, [...again, ...held])
    tell(errors, onRefused)

    if (after === undefined) known.missed = again.filter(({ id }) => !seen.has(id))
    // What is due later is looked at again in any case.
    const to = earlier(next ?? now, settled)
    const missed = [...known.missed, ...held.filter(({ id, due_at }) => !seen.has(id) && due_at < to)]
    // Not past a page that was not looked at, or on which more was left than can be remembered.
    if (from <= known.to && missed.length <= mostMissed) {
      known.missed = missed
      if (to > known.to) known.to = to
    }
    const safe = known.missed.reduce((first, { due_at }) => earlier(first, due_at), known.to)
    if (safe > frontier && (await turn.advance(db, holder, safe))) known.frontier = safe
    return { turn: true, swept, lookedUpTo: next }
  }
}

function tell(errors: readonly unknown[], onRefused: KeysSweep['onRefused'] = () => {}): void {
  for (const error of errors) onRefused(translated(error, ''))
}

/** Moments as text sort like moments. */
const earlier = (one: string, other: string) => (one < other ? one : other)

interface DuePage {
  /** Up to when there was anything to look at. */
  readonly now: string
  readonly held: readonly Row[]
  /** The moment at which the next page begins; null if this is the last one. */
  readonly next: string | null
}

function lookAtDueKeys({ keys }: Tables) {
  const clock = `select ${momentText('clock.time')} as now from (select clock_timestamp() as time) as clock`
  const nameOf = (column: string) => `case when key.state = 'processing' then key.${column} end as ${column}`
  const columns = `key.tenant, key.id::text as id, ${nameOf('scope')}, ${nameOf('key')}, key.state, ${momentText('key.due_at')} as due_at`
  const text = `
    select ${columns} from ${keys} as key
    where key.due_at >= ${momentOf('$1')} and key.due_at <= ${momentOf('$2')}
    order by key.due_at limit $3`
  const heldAt = `select ${columns} from ${keys} as key where key.due_at = ${momentOf('$1')} and key.state = 'processing'`
  const nextMoment = `
    select ${momentText('key.due_at')} as due_at from ${keys} as key
    where key.due_at > ${momentOf('$1')} and key.due_at <= ${momentOf('$2')}
    order by key.due_at limit 1`
  const stillHeld = `
    select ${columns} from ${keyList('$1')} join ${keys} as key on key.tenant = wanted.tenant and key.id = wanted.id
    where key.state = 'processing' and key.due_at <= statement_timestamp()`

  return {
    async duePage(db: Queryable, from: string, limit: number): Promise<DuePage> {
      const now = (await db.query(clock, []))[0]?.now as string
      const rows = await db.query(text, [from, now, limit])
      const [first, last] = [rows[0]?.due_at as string, rows.at(-1)?.due_at as string]
      const held = rows.filter(({ state }) => state === 'processing')
      if (rows.length < limit) return { now, held, next: null }
      if (first !== last) return { now, held, next: last }
      // A page of one moment only would be the same page again: such a moment is looked at as a whole.
      const [next] = await db.query(nextMoment, [last, now])
      return { now, held: await db.query(heldAt, [last]), next: (next?.due_at as string | undefined) ?? null }
    },
    /** Those of them that are held and due: the others were finished, or are due again later. */
    heldOf: async (db: Queryable, rows: readonly Row[]): Promise<readonly Row[]> =>
      rows.length === 0 ? [] : db.query(stillHeld, [keyListValue(rows)]),
  }
}
