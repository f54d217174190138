import { isConnectionFailure, isPreparedStatementTrouble } from '../driver-errors.js'
import { checkDriver } from './check-driver.js'
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
   * Lets the server keep the statements of each request prepared, which saves it most of its work on them. `true`: always, also behind a
   * pooler in transaction mode that knows prepared statements (PgBouncer: `max_prepared_statements`). `false`: never.
   * Default: where the connections of the pool are the server's own, which is found out at the first request.
   */
  prepare?: boolean
}

/**
 * Takes a pool of the `pg` package. Behind PgBouncer in transaction mode its statements have no names.
 *
 * @example postgresStore(fromPg(new Pool({ connectionString: process.env.DATABASE_URL })))
 */
export function fromPg<Client extends PgClient>(pool: PgPool<Client>, { prepare }: FromPgOptions = {}): Connection<Client> {
  checkDriver('fromPg', pool, ['query', 'connect'], 'a pool of pg: new pg.Pool(…)')
  const nameOf = preparedNames()
  let prepares = prepare
  let sendsBinary: boolean | undefined
  let isFindingOut = false

  return {
    get sendsBinary() {
      return sendsBinary
    },

    async query(text, values, often) {
      if (often && (sendsBinary === undefined || prepares === undefined)) void findOut()
      if (!often || !prepares) return (await pool.query(text, values as unknown[])).rows
      try {
        return await named(pool, text, values)
      } catch (error) {
        // Nothing was executed.
        if (!isPreparedStatementTrouble(error)) throw error
        return (await pool.query(text, values as unknown[])).rows
      }
    },

    within: (client): Queryable => ({
      async query(text, values, often) {
        return often && prepares ? named(client, text, values) : (await client.query(text, values as unknown[])).rows
      },
    }),

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

  async function named(db: Pick<PgClient, 'query'>, text: string, values: readonly unknown[]): Promise<readonly Row[]> {
    try {
      return (await db.query({ name: nameOf(text), text }, values as unknown[])).rows
    } catch (error) {
      // Somebody said DISCARD ALL on one of our connections, or there is a pooler after all: names are not for this pool.
      if (isPreparedStatementTrouble(error)) prepares = false
      throw error
    }
  }

  /** In the background: nobody waits for it. What cannot be answered is asked again with the next request. */
  async function findOut(): Promise<void> {
    if (isFindingOut) return
    isFindingOut = true
    sendsBinary ??= await passesBytesOn(pool)
    prepares ??= await isServersOwn(pool).catch(() => undefined)
    isFindingOut = false
  }
}

const bytes = 'as they are'

/**
 * Whether bytes reach the server as they are. `pg.native` makes texts of them, and so do pools that send their statements over HTTP: those do it
 * in `query` of the pool only, which is the way that batches go, too.
 */
async function passesBytesOn(pool: Pick<PgPool<PgClient>, 'query'>): Promise<boolean | undefined> {
  try {
    const { rows } = await pool.query('select $1::text as bytes', [Buffer.from(bytes)])
    return rows[0]?.bytes === bytes
  } catch (error) {
    return isConnectionFailure(error) ? undefined : false
  }
}

/** A pooler in between gives its client a number of its own for the connection, and not that of the server's process. */
async function isServersOwn(pool: PgPool<PgClient>): Promise<boolean> {
  const client: PgClient & { readonly processID?: number | null } = await pool.connect()
  // Without a listener, a connection that breaks just now would end the process.
  const broken = () => {}
  client.on('error', broken)
  let failed = true
  try {
    const { rows } = await client.query('select pg_backend_pid() as pid')
    failed = false
    return rows[0]?.pid === client.processID
  } finally {
    client.removeListener('error', broken)
    client.release(failed)
  }
}
