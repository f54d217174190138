import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Connection } from '../stores/postgres/connections/connection.js'
import { fromPg, type PgClient, type PgPool } from '../stores/postgres/connections/from-pg.js'
import { fromPostgresJs, type PostgresJs, type PostgresJsTransaction } from '../stores/postgres/connections/from-postgres-js.js'
import { CommandError, exitCodes } from './exit-codes.js'

/** A database for one command: one connection, so that it works where few are left. `migrate` needs a second one on large tables. */
export interface Session {
  readonly connection: Connection<unknown>
  close(): Promise<void>
}

interface Pg {
  Pool: new (options: object) => PgPool<PgClient> & { on(event: 'error', listener: () => void): unknown; end(): Promise<void> }
}

type Postgres = (url: string, options: object) => PostgresJs<PostgresJsTransaction> & { end(options: object): Promise<void> }

/** A silent server must not hang a script. */
const connectSeconds = 10

/** Connects through the driver in the working directory's project, else one installed beside oncekey. */
export async function connect(
  url: string,
  directory: string,
  /** For tests. */
  places: readonly string[] = [join(directory, 'package.json'), import.meta.url],
): Promise<Session> {
  const pg = await load<Pg>('pg', places)
  if (pg) return throughPg(pg, url)
  const postgres = await load<Postgres>('postgres', places)
  if (postgres) return throughPostgresJs(postgres, url)
  throw new CommandError(
    exitCodes.unexpected,
    `There is no Postgres driver in ${directory}: run oncekey in the folder of your project, or install one there (npm install pg).`,
  )
}

/** Of the user's project. */
export async function load<Module>(name: string, places: readonly string[]): Promise<Module | undefined> {
  for (const place of places) {
    try {
      const module = (await import(pathToFileURL(createRequire(place).resolve(name)).href)) as { default: Module }
      return module.default
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'MODULE_NOT_FOUND') throw error
    }
  }
  return undefined
}

function throughPg({ Pool }: Pg, url: string): Session {
  const pool = new Pool({
    connectionString: url,
    // Migrations of large tables use three.
    max: 3,
    connectionTimeoutMillis: connectSeconds * 1_000,
    fallback_application_name: 'oncekey',
  })
  // The running statement reports it.
  pool.on('error', () => {})
  return { connection: fromPg(pool) as Connection<unknown>, close: () => pool.end() }
}

function throughPostgresJs(postgres: Postgres, url: string): Session {
  const sql = postgres(url, { max: 3, prepare: false, connect_timeout: connectSeconds, onnotice: () => {} })
  return { connection: fromPostgresJs(sql) as Connection<unknown>, close: () => sql.end({ timeout: 1 }) }
}
