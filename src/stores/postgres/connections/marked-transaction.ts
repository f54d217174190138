import type { Connection, Queryable, Row } from './connection.js'

/** The marks of the transactions that are open. One list for all: the store may have another `Connection` than the code that began one. */
const marks = new WeakMap<object, string>()

/**
 * Sets the mark that our last statement compares: work that has ended its transaction by itself must not be recorded as done. The setting ends
 * with the transaction. `also` is SQL for more columns.
 */
export async function markTransaction(tx: unknown, db: Queryable, also = ''): Promise<Row | undefined> {
  const mark = crypto.randomUUID()
  const [row] = await db.query(`select set_config('oncekey.transaction', $1, true) as mark${also}`, [mark])
  marks.set(tx as object, mark)
  return row
}

/** The same connection, whose statements in a transaction know its mark. */
export function knowingMarks<Tx>(connection: Connection<Tx>): Connection<Tx> {
  return { ...connection, within: (tx) => ({ ...connection.within(tx), mark: marks.get(tx as object) }) }
}

/** For drivers that begin transactions by themselves: one more statement in each transaction of ours. */
export function markedTransaction<Tx>(connection: Connection<Tx>): Connection<Tx> {
  return {
    ...knowingMarks(connection),
    transaction: (work, times) =>
      connection.transaction(async (tx) => {
        await markTransaction(tx, connection.within(tx))
        return work(tx)
      }, times),
  }
}
