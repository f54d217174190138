import { OncekeyError } from '../../../core/errors.js'
import type { Bounded } from '../bounded.js'
import type { Row } from '../connections/connection.js'
import type { Tables } from '../tables.js'

/** By tenant and id: on one server by the primary key, on several by the shard. */
export const thisKey = 'key.tenant = $1 and key.id = $2::uuid'

/**
 * The CTE `free`: the key's row, if the condition holds and no other session has it locked. A write from it waits for no lock. So the time at which
 * its statement began is the time at which it is made.
 */
export function freeKey({ keys }: Tables, condition: string): string {
  return `free as materialized (
      select key.tenant, key.id from ${keys} as key where ${thisKey} and ${condition} for no key update skip locked
    )`
}

/** Whether a write from `free` that wrote nothing found the row locked, and not changed. */
export function wasLocked({ keys }: Tables, condition: string): string {
  return `exists (select from ${keys} as key where ${thisKey} and ${condition})`
}

/** Says of a write from `free`, in one row, whether it was done, and whether the row was locked instead. */
export function whatBecame(tables: Tables, condition: string): string {
  return `select done.id is not null as done, done.id is null and ${wasLocked(tables, condition)} as locked
    from (select) as always left join done on true`
}

/** How long a person's change waits for a row that another session has locked. */
const patienceMs = 2_000

/** Carries out a person's change. False if the key is not as it was seen. Throws if its row stays locked. */
export async function byHand(db: Bounded, write: () => Promise<readonly Row[]>): Promise<boolean> {
  const until = performance.now() + Math.min(patienceMs, db.leftMs())
  for (;;) {
    const [row] = await write()
    if (!row?.locked) return row?.done === true
    if (performance.now() + longestPauseMs >= until) throw keyLocked()
    await new Promise((resolve) => setTimeout(resolve, longestPauseMs))
  }
}

const keyLocked = () =>
  new OncekeyError(
    'key_locked',
    'Another session has locked the row of this key, and nothing was changed: end its transaction (pg_stat_activity), or try again.',
  )

const firstPauseMs = 5
const longestPauseMs = 100

/** Repeats a write that found its row locked, for as long as its caller waits. */
export async function onceUnlocked<T>(db: Bounded, write: () => Promise<T | 'locked'>): Promise<T | 'locked'> {
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(longestPauseMs, 2 * pauseMs)) {
    const result = await write()
    if (result !== 'locked' || db.leftMs() <= pauseMs) return result
    await new Promise((resolve) => void setTimeout(resolve, pauseMs))
  }
}
