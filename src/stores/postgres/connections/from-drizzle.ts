import { checkDriver } from './check-driver.js'
import type { Connection, Queryable, Row } from './connection.js'
import { markedTransaction } from './marked-transaction.js'
import { provenTransaction } from './proven-transaction.js'
import { statementsOf } from './statements.js'

/** The subset of a Drizzle transaction that we need. */
export interface DrizzleTransaction {
  // biome-ignore lint/suspicious/noExplicitAny: each driver of Drizzle has a result of its own.
  execute(query: any): PromiseLike<any>
}

/** The subset of a Drizzle database that we need. */
export interface DrizzleDatabase<Tx extends DrizzleTransaction> extends DrizzleTransaction {
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  readonly $client?: unknown
}

/** Drizzle's `sql`, of which we need the template tag. */
export type DrizzleSql = (strings: TemplateStringsArray, ...values: unknown[]) => unknown

/**
 * Takes a Drizzle database on Postgres, of any driver with transactions, and Drizzle's own `sql`: we import no package, and it must be
 * that of the same installation.
 *
 * On a pool of `pg`, also say `pool.on('connect', (client) => client.on('error', report))`: Drizzle does not listen, and a connection
 * that breaks while a transaction is open would end the process.
 *
 * @example postgresStore(fromDrizzle(drizzle(pool), sql))
 */
export function fromDrizzle<Tx extends DrizzleTransaction>(db: DrizzleDatabase<Tx>, sql: DrizzleSql): Connection<Tx> {
  checkDriver('fromDrizzle', db, ['execute', 'transaction'], "a Drizzle database, and Drizzle's own sql: fromDrizzle(drizzle(pool), sql)")
  checkDriver('fromDrizzle', { sql }, ['sql'], "Drizzle's own sql besides the database: fromDrizzle(db, sql)")
  const connection: Connection<Tx> = {
    ...runningOn(db),
    within: runningOn,
    nests: true,

    async script(tx, text) {
      for (const statement of statementsOf(text)) await runningOn(tx).query(statement, [])
    },

    async transaction(work) {
      // Boxed, because postgres.js would await the elements of a result that is an array.
      const box = await db.transaction(async (tx) => ({ result: await work(tx) }))
      return box.result
    },
  }
  // Its client is a function only on postgres.js, which cannot be trusted to stay on one connection.
  return typeof db.$client === 'function' ? provenTransaction(connection) : markedTransaction(connection)

  function runningOn(on: DrizzleTransaction): Queryable {
    return {
      async query(text, values) {
        const result = await on.execute(template(sql, text, values))
        return (Array.isArray(result) ? result : result.rows) as Row[]
      },
    }
  }
}

/** Drizzle numbers parameters itself, in the order in which they stand; in ours `$1` may come twice, or after `$2`. */
function template(sql: DrizzleSql, text: string, values: readonly unknown[]): unknown {
  const strings: string[] = ['']
  const parameters: unknown[] = []
  // A schema may be named "$1": what is quoted is no placeholder.
  for (const [piece, number] of text.matchAll(/\$(\d+)|"[^"]*"|'[^']*'|[^$"']+|./gs)) {
    if (number === undefined) {
      strings.push(strings.pop() + piece)
    } else {
      parameters.push(values[Number(number) - 1])
      strings.push('')
    }
  }
  return sql(Object.assign(strings, { raw: strings }), ...parameters)
}
