import type { Queryable } from '../connections/connection.js'
import { isLockTimeout } from '../driver-errors.js'
import type { Tables } from '../tables.js'

/** How the rows of turns are reached: without waiting for one that is locked, and also when the table was emptied. */
export function upkeepRow({ upkeep }: Pick<Tables, 'upkeep'>) {
  const introduce = `insert into ${upkeep} (name, frontier) values ($1, '-infinity') on conflict (name) do nothing returning name`

  return {
    /** The CTE of the row of which that holds. It is empty while another session has the row locked. */
    unlocked: (condition: string) => `unlocked as materialized (
      select name from ${upkeep} where ${condition} for no key update skip locked
    )`,

    /** Takes the turn. If that fails because there is no row, makes the row and takes the turn again. */
    async introduced<T>(db: Queryable, name: string, take: () => Promise<T | undefined>): Promise<T | undefined> {
      const taken = await take()
      if (taken !== undefined) return taken
      const isNew = await db.query(introduce, [name]).then(
        (rows) => rows.length > 0,
        (error: unknown) => {
          // Another session is making the row, and has the turn.
          if (isLockTimeout(error)) return false
          throw error
        },
      )
      return isNew ? take() : undefined
    },
  }
}
