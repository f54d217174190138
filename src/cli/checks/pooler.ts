import type { Connection } from '../../stores/postgres/connections/connection.js'
import { type Check, fail, ok } from './check.js'

const looks = 5

/**
 * Detects a pooler. If two of our connections get the same backend in turn, a pooler assigns it per transaction.
 */
export async function poolerCheck(first: Connection<unknown>, second: Connection<unknown>): Promise<Check> {
  const backend = async (connection: Connection<unknown>) =>
    (await connection.query('select pg_backend_pid() as pid', []))[0]?.pid as number
  const mine = new Set<number>()
  const others = new Set<number>()
  try {
    for (let look = 0; look < looks; look += 1) {
      mine.add(await backend(first))
      // While the other is in a transaction, ours gets another backend.
      await second.transaction(async (tx) => {
        others.add((await second.within(tx).query('select pg_backend_pid() as pid', []))[0]?.pid as number)
        mine.add(await backend(first))
      })
    }
  } catch (error) {
    if (!/statement pooling/i.test(String(error))) throw error
    return fail('pooler', 'a pooler in statement mode: it has no transactions', 'set pool_mode = transaction')
  }
  const shared = mine.size > 1 || [...mine].some((pid) => others.has(pid))
  if (!shared) return ok('pooler', 'none, or one in session mode')
  return ok('pooler', 'one in transaction mode: fine for oncekey, not for LISTEN, SET or named statements of your own')
}
