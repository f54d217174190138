import { checkDriver } from './check-driver.js'
import type { Connection, Queryable } from './connection.js'
import { markedTransaction } from './marked-transaction.js'
import { statementsOf } from './statements.js'

/** The subset of Kysely's `Transaction` that we need. */
export interface KyselyTransaction {
  // biome-ignore lint/suspicious/noExplicitAny: Kysely types a query by its rows, which only queries/ know.
  executeQuery(query: any): Promise<{ rows: any[] }>
  withoutPlugins(): KyselyTransaction
}

/** The subset of `Kysely` that we need. */
export interface KyselyDatabase<Tx extends KyselyTransaction> extends KyselyTransaction {
  transaction(): { execute<T>(work: (tx: Tx) => Promise<T>): Promise<T> }
}

/**
 * Takes a `Kysely` instance on Postgres. A `ControlledTransaction` may be passed to `once.within()` as well.
 *
 * On a pool of `pg`, also say `pool.on('connect', (client) => client.on('error', report))`: Kysely does not listen, and a connection
 * that breaks while a transaction is open would end the process.
 *
 * @example postgresStore(fromKysely(new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) })))
 */
export function fromKysely<Tx extends KyselyTransaction>(db: KyselyDatabase<Tx>): Connection<Tx> {
  checkDriver('fromKysely', db, ['executeQuery', 'withoutPlugins', 'transaction'], 'a Kysely instance: new Kysely(…)')
  return markedTransaction<Tx>({
    ...runningOn(db),
    within: runningOn,
    nests: true,

    async script(tx, text) {
      for (const statement of statementsOf(text)) await runningOn(tx).query(statement, [])
    },

    transaction: (work) => db.transaction().execute(work),
  })
}

function runningOn(db: KyselyTransaction): Queryable {
  // A plugin of the user's, such as CamelCasePlugin, would rename our columns.
  const plain = db.withoutPlugins()
  return {
    async query(text, values) {
      return (await plain.executeQuery(compiled(text, values))).rows
    },
  }
}

/** What Kysely's `CompiledQuery.raw()` makes of a statement. */
function compiled(sql: string, parameters: readonly unknown[]) {
  return { sql, parameters, query: { kind: 'RawNode', sqlFragments: [sql], parameters: [] }, queryId: { queryId: 'oncekey' } }
}
