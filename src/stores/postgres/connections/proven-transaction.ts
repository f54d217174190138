import type { Connection } from './connection.js'
import { knowingMarks, markTransaction } from './marked-transaction.js'

/**
 * For drivers that reconnect under an open transaction (postgres.js does: its issue 1216). After the reconnect the rest of the
 * transaction, our statement and COMMIT included, runs wherever the new socket stands, perhaps inside another transaction, and
 * nothing says so. So the transaction's number is asked for at its beginning, compared at its end, and its fate is looked up after the
 * commit. That is three small statements for each transaction, and the only proof there is.
 */
export function provenTransaction<Tx>(connection: Connection<Tx>): Connection<Tx> {
  return {
    ...knowingMarks(connection),

    async transaction(work) {
      let begun: unknown
      const result = await connection.transaction(async (tx) => {
        const db = connection.within(tx)
        begun = (await markTransaction(tx, db, ', pg_current_xact_id()::text as xid'))?.xid
        const value = await work(tx)
        const ended = (await db.query('select pg_current_xact_id_if_assigned()::text as xid', []))[0]?.xid
        if (ended !== begun) throw connectionLost()
        return value
      })
      const [fate] = await connection.query(`select pg_xact_status($1::text::xid8) as status`, [begun as string])
      if (fate?.status !== 'committed') throw connectionLost()
      return result
    },
  }
}

/** As a driver that noticed would have put it. */
function connectionLost(): Error {
  return Object.assign(new Error('the connection broke, and the driver went on with another one'), { code: 'CONNECTION_CLOSED' })
}
