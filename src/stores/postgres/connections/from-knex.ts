import { checkDriver } from './check-driver.js'
import type { Connection, Queryable } from './connection.js'
import { markedTransaction } from './marked-transaction.js'

/** The subset of `Knex.Transaction` that we need. */
export interface KnexTransaction {
  // biome-ignore lint/suspicious/noExplicitAny: Knex cannot know what a raw statement returns.
  raw(sql: string): { options(options: Record<string, any>): PromiseLike<any> }
}

/** The subset of `Knex` that we need. */
export interface KnexDatabase<Tx extends KnexTransaction> extends KnexTransaction {
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>
}

/**
 * Takes a `Knex` instance of the client `pg`.
 *
 * @example postgresStore(fromKnex(knex({ client: 'pg', connection: process.env.DATABASE_URL })))
 */
export function fromKnex<Tx extends KnexTransaction>(knex: KnexDatabase<Tx>): Connection<Tx> {
  checkDriver('fromKnex', knex, ['raw', 'transaction'], "a Knex instance: knex({ client: 'pg', … })")
  return markedTransaction<Tx>({
    ...runningOn(knex),
    within: runningOn,
    nests: true,

    async script(tx, text) {
      await tx.raw(text).options({ text })
    },

    async transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
      let working: Promise<T> | undefined
      await knex.transaction((tx) => {
        working = work(tx)
        return working
      })
      // Not what `transaction` resolves to: that is undefined, and no error, when the work itself called `tx.rollback()`. Our statement
      // at the end of the work has failed then.
      return working as Promise<T>
    },
  })
}

function runningOn(db: KnexTransaction): Queryable {
  return {
    async query(text, values) {
      // Knex would read every `?` as a binding, and counts them; these options go to the driver as they are. Rows are asked for as
      // arrays, because a `postProcessResponse` of the user's, such as one for camel case, would rename the members of objects.
      const { rows, fields } = await db.raw(text).options({ text, values: [...values], rowMode: 'array' })
      const names = (fields as { name: string }[]).map(({ name }) => name)
      return (rows as unknown[][]).map((row) => Object.fromEntries(names.map((name, column) => [name, row[column]])))
    },
  }
}
