import type { Bounded } from '../bounded.js'
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
