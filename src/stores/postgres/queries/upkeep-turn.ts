import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { after, isOver } from './key-row.js'
import { momentOf, momentText } from './moment.js'
import { upkeepRow } from './upkeep-row.js'

/**
 * How long after its own time a row may still appear: its transaction took its time first and is committed later. The frontier stays
 * that far behind, and what lies between is looked at again.
 */
const lateCommits = `interval '10 seconds'`

export interface SweepTurn {
  /** Where to begin. */
  readonly frontier: string
  /** No row appears any more that was due before this. */
  readonly settled: string
}

/** Whose turn it is to sweep, and up to where everything is known to be in order. A plain conditional update, so it needs no session. */
export function upkeepTurn(tables: Tables) {
  const { upkeep } = tables
  const row = upkeepRow(tables)
  const mine = `name = 'sweep' and holder = $1::uuid`
  // A clock that was set back makes keys due before the frontier: it goes back with it.
  const take = `
    with ${row.unlocked(`name = 'sweep' and (holder = $1::uuid or ${isOver('held_until', 'statement_timestamp()', '$2')})`)}, taken as (
      update ${upkeep} as turn
      set holder = $1::uuid, held_until = ${after('statement_timestamp()', '$2')},
          frontier = least(turn.frontier, statement_timestamp() - ${lateCommits})
      from unlocked
      where turn.name = unlocked.name
      returning turn.frontier
    )
    select ${momentText('taken.frontier')} as frontier, ${momentText(`clock.time - ${lateCommits}`)} as settled
    from taken, (select statement_timestamp() as time) as clock`
  const advance = `
    with ${row.unlocked(mine)}
    update ${upkeep} as turn set frontier = greatest(turn.frontier, ${momentOf('$2')}) from unlocked
    where turn.name = unlocked.name
    returning turn.name`

  return {
    /** Undefined if it is another process's turn. */
    take: (db: Queryable, holder: string, turnMs: number): Promise<SweepTurn | undefined> =>
      row.introduced(db, 'sweep', async () => (await db.query(take, [holder, turnMs]))[0] as SweepTurn | undefined),
    /** False if it could not be noted: another process has the turn, or has the row locked. */
    async advance(db: Queryable, holder: string, to: string): Promise<boolean> {
      return (await db.query(advance, [holder, to])).length > 0
    },
  }
}
