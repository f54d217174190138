import { isConnectionFailure, isPreparedStatementTrouble } from '../driver-errors.js'
import { checkDriver } from './check-driver.js'
import type { Connection, Queryable, Row, TransactionTimes } from './connection.js'
import { type Lent, lend, runOn } from './pg-connections.js'
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
  readonly options?: { connectionTimeoutMillis?: number | undefined }
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
  /**
   * What the pool's `connectionTimeoutMillis` becomes if you have not set it, in milliseconds: how long to wait for a connection. pg's own default
   * is to wait without limit, and then a connection that goes silent while it is opened keeps its place in the pool. `false` leaves the pool
   * as it is. Default 15,000.
   */
  connectTimeoutMs?: number | false
}

/** The transactions that are open. One list for all: the store may have another `Connection` of the same pool than the code that began it. */
const open = new WeakMap<PgClient, { readonly mark: string; readonly lent: Lent }>()

/**
 * Takes a pool of the `pg` package. Behind PgBouncer in transaction mode its statements have no names.
 *
 * @example postgresStore(fromPg(new Pool({ connectionString: process.env.DATABASE_URL })))
 */
export function fromPg<Client extends PgClient>(
  pool: PgPool<Client>,
  { prepare, connectTimeoutMs = 15_000 }: FromPgOptions = {},
): Connection<Client> {
  checkDriver('fromPg', pool, ['query', 'connect'], 'a pool of pg: new pg.Pool(…)')
  const nameOf = preparedNames()
  let prepares = prepare
  let sendsBinary: boolean | undefined
  let isFindingOut = false
  let isLimited = false

  return {
    endsInTime: true,
    get sendsBinary() {
      return sendsBinary
    },

    query(text, values, { often = false, timeoutMs } = {}) {
      if (often && (sendsBinary === undefined || prepares === undefined)) void findOut()
      const isPrepared = often && prepares
      return runOn(limited(), timeoutMs, (client) => (isPrepared ? preparedOrPlain(client, text, values) : plain(client, text, values)))
    },

    within(client): Queryable {
      const transaction = open.get(client)
      return {
        // A transaction of the user's own has a connection that is not ours to destroy.
        endsInTime: transaction !== undefined,
        mark: transaction?.mark,
        session: client,
        query(text, values, { often = false, timeoutMs } = {}) {
          const asked = often && prepares ? named(client, text, values) : plain(client, text, values)
          return transaction ? transaction.lent.within(asked, timeoutMs) : asked
        },
      }
    },

    async script(client, text) {
      await client.query(text)
    },

    async transaction(work, { timeoutMs, workMs }: Partial<TransactionTimes> = {}) {
      const { client, lent } = await lend(limited(), timeoutMs)
      const mark = crypto.randomUUID()
      open.set(client, { mark, lent })
      try {
        // In one message. The setting ends with the transaction, so a last statement that does not find it is in another one.
        await lent.within(client.query(`begin; set local oncekey.transaction = '${mark}'`), timeoutMs)
        const result = await lent.within(work(client), workMs)
        await lent.within(client.query('commit'), timeoutMs)
        return result
      } catch (error) {
        if (!lent.isLost) await lent.within(client.query('rollback'), timeoutMs).catch(() => lent.lose())
        throw error
      } finally {
        open.delete(client)
        lent.giveBack()
      }
    },
  }

  /** Not before it is used: a pool may be opened by the first look at it. */
  function limited(): PgPool<Client> {
    if (isLimited) return pool
    isLimited = true
    const { options } = pool
    if (connectTimeoutMs !== false && options && !options.connectionTimeoutMillis) options.connectionTimeoutMillis = connectTimeoutMs
    return pool
  }

  async function preparedOrPlain(client: Client, text: string, values: readonly unknown[]): Promise<readonly Row[]> {
    try {
      return await named(client, text, values)
    } catch (error) {
      // Nothing was executed.
      if (!isPreparedStatementTrouble(error)) throw error
      return plain(client, text, values)
    }
  }

  async function named(db: Pick<PgClient, 'query'>, text: string, values: readonly unknown[]): Promise<readonly Row[]> {
    try {
      return (await db.query({ name: nameOf(text), text }, values as unknown[])).rows
    } catch (error) {
      // DISCARD ALL was sent on one of our connections, or there is a pooler after all: this pool cannot use names.
      if (isPreparedStatementTrouble(error)) prepares = false
      throw error
    }
  }

  /** In the background: no request waits for it. What cannot be answered is asked again with the next request. */
  async function findOut(): Promise<void> {
    if (isFindingOut) return
    isFindingOut = true
    try {
      sendsBinary ??= await passesBytesOn(limited())
      prepares ??= await isServersOwn(limited()).catch(() => undefined)
    } finally {
      isFindingOut = false
    }
  }
}

async function plain(db: PgClient, text: string, values: readonly unknown[]): Promise<readonly Row[]> {
  return (await db.query(text, values as unknown[])).rows
}

const bytes = 'as they are'

/** Whether bytes reach the server as they are. `pg.native` makes texts of them. */
async function passesBytesOn<Client extends PgClient>(pool: PgPool<Client>): Promise<boolean | undefined> {
  try {
    const [row] = await runOn(pool, findOutMs, (client) => plain(client, 'select $1::text as bytes', [Buffer.from(bytes)]))
    return row?.bytes === bytes
  } catch (error) {
    return isConnectionFailure(error) ? undefined : false
  }
}

/** A pooler in between gives its client a number of its own for the connection, and not that of the server's process. */
function isServersOwn<Client extends PgClient>(pool: PgPool<Client>): Promise<boolean> {
  return runOn(pool, findOutMs, async (client: Client & { readonly processID?: number | null }) => {
    const [row] = await plain(client, 'select pg_backend_pid() as pid', [])
    return row?.pid === client.processID
  })
}

const findOutMs = 5_000
