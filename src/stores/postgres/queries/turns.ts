import type { TurnStore } from '../../../core/store.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { after, databaseNow } from './key-row.js'

/**
 * Turns, one row for each name, in the table of the sweeper's. `frontier` is when the next one is due. Plain conditional updates, so they
 * need no session; one that finds nothing to change writes nothing.
 */
export function turns({ upkeep }: Tables, ask: <T>(verb: (db: Queryable) => Promise<T>) => Promise<T>): TurnStore {
  const take = `
    update ${upkeep} set holder = $2::uuid, held_until = ${after('clock_timestamp()', '$3')}
    where name = $1 and held_until <= clock_timestamp() and ($4::boolean or frontier <= clock_timestamp())
    returning ${databaseNow}`
  const introduce = `insert into ${upkeep} (name, frontier) values ($1, '-infinity') on conflict (name) do nothing returning name`
  const keep = `
    update ${upkeep} set held_until = ${after('clock_timestamp()', '$3')} where name = $1 and holder = $2::uuid returning name`
  const end = `
    update ${upkeep} set holder = null, held_until = '-infinity', frontier = ${after('clock_timestamp()', '$3')}
    where name = $1 and holder = $2::uuid`

  return {
    turnTake: ({ name, holder, turnMs, early }) =>
      ask(async (db) => {
        const values = [name, holder, turnMs, early]
        const [row] = await db.query(take, values)
        if (row) return { now: row.now }
        const isNew = (await db.query(introduce, [name])).length > 0
        const [second] = isNew ? await db.query(take, values) : []
        return second && { now: second.now }
      }),
    turnKeep: ({ name, holder, turnMs }) => ask(async (db) => (await db.query(keep, [name, holder, turnMs])).length > 0),
    turnEnd: ({ name, holder, nextInMs }) => ask(async (db) => void (await db.query(end, [name, holder, nextInMs]))),
  }
}
