import type { Store } from 'oncekey'
import { memoryStore } from 'oncekey/memory'
import { fromPg, fromPostgresJs, postgresStore } from 'oncekey/postgres'
import pg from 'pg'
import postgres from 'postgres'

/** By name: an address of a migrated database is in `DATABASE_URL`. */
export function storeOf(name: string, url: string | undefined): Store<unknown> {
  if (name === 'pg') return postgresStore(fromPg(new pg.Pool({ connectionString: url }))) as Store<unknown>
  if (name === 'postgres') return postgresStore(fromPostgresJs(postgres(url ?? '', { onnotice: () => {} }))) as Store<unknown>
  return memoryStore() as Store<unknown>
}
