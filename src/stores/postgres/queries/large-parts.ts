import type { Bounded } from '../bounded.js'
import { ByteBudget } from '../byte-budget.js'
import type { Tables } from '../tables.js'
import { thisKey } from './free-key.js'
import type { Found } from './key-claim.js'
import { answerColumns, answerOf, requestColumn, requestOf } from './key-row.js'

/** Of all answers and requests that are being read at once by this store. */
const mostBytes = 64 * 1024 * 1024

/** Reads what was too large to come along, in statements that only read. */
export function largeParts({ keys }: Tables) {
  const budget = new ByteBudget(mostBytes)
  // Of this life and this attempt: a finished key stays as it is, and so does the request of one that is held.
  const same = `${thisKey} and key.incarnation = $3::uuid and key.fence = $4`
  const answerText = `select ${answerColumns} from ${keys} as key where ${same} and answer_status is not null`
  const requestText = `select ${requestColumn} from ${keys} as key where ${same}`

  return {
    /** The record with all its parts, or those that are wanted; undefined if it is not what it was any more. */
    async completed(db: Bounded, found: Found, { answer = true, request = true } = {}): Promise<Found | undefined> {
      const left = { answer: answer ? found.left.answer : 0, request: request ? found.left.request : 0 }
      if (left.answer + left.request === 0) return found
      const { tenant, id, incarnation, fence } = found.record
      const values = [tenant, id, incarnation, fence]
      return budget.spend(left.answer + left.request, db.until - performance.now(), async () => {
        let { record } = found
        if (left.answer > 0) {
          const [row] = await db.query(answerText, values)
          if (!row) return undefined
          record = { ...record, answer: answerOf(row) }
        }
        if (left.request > 0) {
          const [row] = await db.query(requestText, values)
          if (!row) return undefined
          record = { ...record, request: requestOf(row) }
        }
        return { ...found, record, left: { answer: found.left.answer - left.answer, request: found.left.request - left.request } }
      })
    },
  }
}
