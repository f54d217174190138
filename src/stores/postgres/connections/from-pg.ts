import type { Connection, Queryable, Row } from './connection.js'
import { preparedNames } from './prepared-names.js'

type Statement = string | { readonly name: string; readonly text: string }

/** The subset of pg's `PoolClient` that we need. */
export interface PgClient {
  query(statement: Statement, values?: unknown[]): Promise<{ rows: Row[] }>
  release(destroy?: boolean): void
  on(event: 'error', listener: (error: Error) => void): unknown
  removeListener(event: 'error', listener: (error: Error) => void): unknown
}

/** The subset of pg's `Pool` that we need. */
export interface PgPool<Client extends PgClient> {
  query(statement: Statement, values?: unknown[]): Promise<{ rows: Row[] }>
  connect(): Promise<Client>
  // Never called. pg declares this overload too, and only with it can the compiler find out what a `Client` is.
  // biome-ignore lint/suspicious/noExplicitAny: see above.
  connect(callback: (...parameters: any[]) => void): void
}

export interface FromPgOptions {
  /**
   * Lets the server keep our statements prepared, which saves it a good part of its work. Only where each connection of the pool is one of
   * the server's: not behind a pooler in transaction mode, unless it knows prepared statements (PgBouncer: `max_prepared_statements`).
   * Default false.
   */
  prepare?: boolean
}

/**
 * Takes a pool of the `pg` package. Statements are unnamed unless you say otherwise, so it also works behind PgBouncer in transaction mode.
 *
 * @example postgresStore(fromPg(new Pool({ connectionString: process.env.DATABASE_URL })))
 */
export function fromPg<Client extends PgClient>(pool: PgPool<Client>, { prepare = false }: FromPgOptions = {}): Connection<Client> {
  const nameOf = prepare ? preparedNames() : undefined
  const runningOn = (db: Pick<PgClient, 'query'>): Queryable => ({
    async query(text, values) {
      return (await db.query(nameOf ? { name: nameOf(text), text } : text, values as unknown[])).rows
    },
  })

  return {
    ...runningOn(pool),
    within: runningOn,

    async script(client, text) {
      await client.query(text)
    },

    async transaction(work) {
      const client = await pool.connect()
      // Without a listener, a connection that breaks between two statements would end the process.
      const broken = (error: Error) => {
        failure = error
      }
      let failure: Error | undefined
      client.on('error', broken)
      try {
        await client.query('begin')
        const result = await work(client)
        await client.query('commit')
        return result
      } catch (error) {
        await client.query('rollback').catch((rollbackError: Error) => {
          failure = rollbackError
        })
        throw error
      } finally {
        client.removeListener('error', broken)
        client.release(failure !== undefined)
      }
    },
  }
}
