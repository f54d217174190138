import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { after } from './key-row.js'

/**
 * How long after its own time a row may still appear: its transaction took its time first and is committed later. The frontier stays
 * that far behind, and what lies between is looked at again.
 */
const lateCommits = `interval '10 seconds'`

/** Whose turn it is to sweep, and up to where everything is known to be in order. A plain conditional update, so it needs no session. */
export function upkeepTurn({ upkeep }: Tables) {
  // A clock that was set back makes keys due before the frontier: it goes back with it.
  const take = `
    update ${upkeep}
    set holder = $1::uuid, held_until = ${after('clock_timestamp()', '$2')}, frontier = least(frontier, clock_timestamp() - ${lateCommits})
    where name = 'sweep' and (holder = $1::uuid or held_until <= clock_timestamp())
    returning frontier::text as frontier`
  const advance = `
    update ${upkeep} set frontier = greatest(frontier, least($3::text::timestamptz, clock_timestamp() - ${lateCommits}))
    where name = 'sweep' and holder = $1::uuid and frontier >= least($2::text::timestamptz, clock_timestamp() - ${lateCommits})`

  return {
    /** Where to begin; undefined if it is somebody else's turn. */
    async take(db: Queryable, holder: string, turnMs: number): Promise<string | undefined> {
      const [row] = await db.query(take, [holder, turnMs])
      return row?.frontier
    },
    /** Not past a page on which something was left: the frontier must have come to where this one begins. */
    async advance(db: Queryable, holder: string, { from, to }: { readonly from: string; readonly to: string }): Promise<void> {
      await db.query(advance, [holder, from, to])
    },
  }
}
