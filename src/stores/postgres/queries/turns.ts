import { OncekeyError } from '../../../core/errors.js'
import type { Limit, TurnStore } from '../../../core/store.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { after, epochMs, isOver } from './key-row.js'
import { upkeepRow } from './upkeep-row.js'

/**
 * Turns, one row for each name, in the table of the sweeper's. `frontier` is when the next one is due. Plain conditional updates, so they
 * need no session; one that finds nothing to change writes nothing, and none waits for a row that another session has locked.
 */
export function turns(tables: Tables, ask: <T>(verb: (db: Queryable) => Promise<T>, limit?: Limit) => Promise<T>): TurnStore {
  const { upkeep } = tables
  const row = upkeepRow(tables)
  const mine = 'name = $1::text and holder = $2::uuid'
  const free = `name = $1::text and ${isOver('held_until', 'statement_timestamp()', '$3')} and ($4::boolean or frontier <= statement_timestamp())`
  const take = `
    with ${row.unlocked(free)}, taken as (
      update ${upkeep} as turn set holder = $2::uuid, held_until = ${after('statement_timestamp()', '$3')} from unlocked
      where turn.name = unlocked.name
      returning turn.name
    )
    select ${epochMs('statement_timestamp()')} as now from taken`
  const keep = `
    with ${row.unlocked(mine)}
    update ${upkeep} as turn set held_until = ${after('statement_timestamp()', '$3')} from unlocked
    where turn.name = unlocked.name
    returning turn.name`
  const isHolder = `select 1 from ${upkeep} where ${mine}`
  const end = `
    with ${row.unlocked(mine)}
    update ${upkeep} as turn
    set holder = null, held_until = '-infinity', frontier = ${after('statement_timestamp()', '$3')} from unlocked
    where turn.name = unlocked.name
    returning turn.name`

  return {
    turnTake({ name, holder, turnMs, early }, limit) {
      const takeIn = async (db: Queryable) => {
        const [taken] = await db.query(take, [name, holder, turnMs, early])
        return taken && { now: taken.now as number }
      }
      return ask((db) => row.introduced(db, name, () => takeIn(db)), limit)
    },
    turnKeep: ({ name, holder, turnMs }, limit) => ask((db) => write(db, keep, [name, holder, turnMs]), limit),
    turnEnd: ({ name, holder, nextInMs }, limit) => ask(async (db) => void (await write(db, end, [name, holder, nextInMs])), limit),
  }

  /** False if the turn is another holder's. */
  async function write(db: Queryable, text: string, values: readonly [name: string, holder: string, ms: number]): Promise<boolean> {
    if ((await db.query(text, values)).length > 0) return true
    const [name, holder] = values
    if ((await db.query(isHolder, [name, holder])).length === 0) return false
    throw new OncekeyError('store_unavailable', `The turn of ${name} was not changed: another session has its row locked. Retry.`)
  }
}
