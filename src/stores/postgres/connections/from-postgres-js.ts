import { checkDriver } from './check-driver.js'
import type { Connection, Queryable, Row } from './connection.js'
import { provenTransaction } from './proven-transaction.js'

/** The subset of a postgres.js transaction that we need. */
export interface PostgresJsTransaction {
  // biome-ignore lint/suspicious/noExplicitAny: postgres.js types its parameters by the type map of the user's instance.
  unsafe(text: string, values?: any[], options?: { prepare?: boolean | undefined }): PromiseLike<readonly Row[]>
}

/** The subset of postgres.js's `Sql` that we need. */
export interface PostgresJs<Tx extends PostgresJsTransaction> extends PostgresJsTransaction {
  // biome-ignore lint/suspicious/noExplicitAny: postgres.js unwraps arrays of promises in what `begin` returns.
  begin(work: (tx: Tx) => Promise<any>): Promise<any>
  // Never called. postgres.js declares this overload too, and only with it can the compiler find out what a `Tx` is.
  // biome-ignore lint/suspicious/noExplicitAny: see above.
  begin(options: string, work: (tx: Tx) => Promise<any>): Promise<any>
}

/**
 * Takes an instance of the `postgres` package. The statements of each request are prepared, unless it was made with `prepare: false`, which
 * it needs behind PgBouncer in transaction mode for your own statements, too. Each transaction costs three more statements than with `pg`: see `provenTransaction`.
 *
 * @example postgresStore(fromPostgresJs(postgres(process.env.DATABASE_URL)))
 */
export function fromPostgresJs<Tx extends PostgresJsTransaction>(sql: PostgresJs<Tx>): Connection<Tx> {
  checkDriver('fromPostgresJs', sql, ['unsafe', 'begin'], 'an instance of the postgres package: postgres(url)')
  return provenTransaction<Tx>({
    ...runningOn(sql),
    within: runningOn,
    nests: true,

    async script(tx, text) {
      await tx.unsafe(text)
    },

    async transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
      // Boxed, because `begin` would await the elements of a result that is an array.
      const box = (await sql.begin(async (tx) => ({ result: await work(tx) }))) as { result: T }
      return box.result
    },
  })
}

function runningOn(db: PostgresJsTransaction): Queryable {
  return {
    async query(text, values, { often = false } = {}) {
      return db.unsafe(text, [...values], { prepare: often })
    },
  }
}
