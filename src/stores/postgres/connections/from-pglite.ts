import { checkDriver } from './check-driver.js'
import type { Connection, Queryable, Row } from './connection.js'
import { markedTransaction } from './marked-transaction.js'

/** The subset of a PGlite transaction that we need. */
export interface PgliteTransaction {
  // biome-ignore lint/suspicious/noExplicitAny: PGlite types its parameters as any[].
  query(text: string, values?: any[]): Promise<{ rows: any[] }>
  exec(text: string): Promise<unknown>
}

/** The subset of `PGlite` that we need. */
export interface Pglite<Tx extends PgliteTransaction> {
  // biome-ignore lint/suspicious/noExplicitAny: PGlite types its parameters as any[].
  query(text: string, values?: any[]): Promise<{ rows: any[] }>
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>
}

/**
 * Takes a PGlite database: Postgres inside the process, for development, tests and the embedded default. It runs without
 * fsync: it survives a killed process, not a power cut.
 *
 * @example postgresStore(fromPglite(new PGlite('./data')))
 */
export function fromPglite<Tx extends PgliteTransaction>(db: Pglite<Tx>): Connection<Tx> {
  checkDriver('fromPglite', db, ['query', 'transaction'], 'a PGlite database: new PGlite(…)')
  return markedTransaction<Tx>({
    ...runningOn(db),
    within: runningOn,
    singleSession: true,

    async script(tx, text) {
      await tx.exec(text)
    },

    transaction: (work) => db.transaction(work),
  })
}

function runningOn(db: Pick<PgliteTransaction, 'query'>): Queryable {
  return {
    async query(text, values) {
      return (await db.query(text, values as unknown[])).rows as Row[]
    },
  }
}
