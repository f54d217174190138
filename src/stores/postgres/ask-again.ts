import type { Bounded } from './bounded.js'
import { isSerializationFailure, storeConflict, translated } from './driver-errors.js'

/** How often a statement that lost against another transaction is sent again, and the longest rest before that. */
const maxTries = 20
const longestPauseMs = 100

/** Repeats a verb whose first try failed because another transaction got in its way, and says in our words what went wrong. */
export async function askAgain<T>(db: Bounded, schema: string, verb: () => Promise<T>, first: unknown): Promise<T> {
  let error = first
  for (let tries = 1; isSerializationFailure(error) && tries < maxTries && db.leftMs() > longestPauseMs; tries += 1) {
    // At random, or those that got in each other's way meet again.
    await new Promise((resolve) => void setTimeout(resolve, Math.random() * Math.min(longestPauseMs, 2 ** tries)))
    try {
      return await verb()
    } catch (next) {
      error = next
    }
  }
  throw isSerializationFailure(error) ? storeConflict(error) : translated(error, schema)
}
