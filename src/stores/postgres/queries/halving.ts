import { isImpatience, isSerializationFailure, translated } from '../driver-errors.js'

/** A statement that writes returns at most 64 KiB: so many rows if each of them returns an id and little more. */
const mostRows = 500

/** From so many failures on, what is left is tried once more and not halved again: a call must end long before its caller's deadline. */
const mostFailures = 100

export interface Halved<Item, Result> {
  /** Of each statement that succeeded. */
  readonly results: readonly Result[]
  readonly refused: readonly { readonly items: readonly Item[]; readonly error: unknown }[]
}

/**
 * Writes many rows in as few statements as may be. If one fails because of one of its rows, such as by a trigger of the user's, its rows are halved
 * until that row is alone, and all others are written.
 */
export async function byHalves<Item, Result>(
  items: readonly Item[],
  write: (items: readonly Item[]) => Promise<Result>,
): Promise<Halved<Item, Result>> {
  const parts: (readonly Item[])[] = []
  for (let at = 0; at < items.length; at += mostRows) parts.unshift(items.slice(at, at + mostRows))
  const results: Result[] = []
  const refused: { items: readonly Item[]; error: unknown }[] = []
  let failures = 0
  for (let part = parts.pop(); part; part = parts.pop()) {
    try {
      results.push(await write(part))
    } catch (error) {
      // What was written must be reported. Trouble that lasts comes again with the next call.
      if (!isOfOneRow(error) && results.length > 0) break
      if (!isOfOneRow(error)) throw error
      failures += 1
      const middle = Math.ceil(part.length / 2)
      if (part.length === 1 || failures >= mostFailures) refused.push({ items: part, error })
      else parts.push(part.slice(middle), part.slice(0, middle))
    }
  }
  return { results, refused }
}

/** Refused by a trigger of the user's, or waited for too long in it. All else is trouble with the database. */
export function isOfOneRow(error: unknown): boolean {
  if (isSerializationFailure(error)) return false
  return isImpatience(error) || translated(error, '').code === 'store_failed'
}
