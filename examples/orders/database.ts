// Postgres inside the process (PGlite), with its files on disk, so that there is nothing to install; or your own server.
import { existsSync } from 'node:fs'
import { cp, mkdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { PGlite } from '@electric-sql/pglite'
import { type Connection, fromPg, fromPglite } from 'oncekey/postgres'
import pg from 'pg'
import { ownFolder } from './own-folder.js'

export const tables = `
  create table if not exists orders (
    id uuid primary key default gen_random_uuid(),
    item text not null,
    cents integer not null,
    customer text not null,
    note text not null default '',
    charge_id text,
    -- Which request gives the money back: see refunds.ts.
    refund_key text,
    refund_id text,
    receipt_sent_at timestamptz
  );
  create index if not exists orders_customer on orders (customer);
  create table if not exists exports (id uuid primary key, csv text not null);`

export const naiveTables = `
  create table if not exists naive_orders (
    id uuid primary key default gen_random_uuid(),
    item text not null,
    cents integer not null,
    customer text not null,
    charge_id text
  );`

export interface Database {
  connection: Connection<unknown>
  close(): Promise<void>
}

/** `folder` is where the embedded one has its files. Each process needs its own: PGlite is Postgres for one process. */
export async function openDatabase(folder: string): Promise<Database> {
  const { DATABASE_URL } = process.env
  if (DATABASE_URL) {
    const pool = new pg.Pool({ connectionString: DATABASE_URL })
    pool.on('error', (error) => console.error('A connection to the database broke:', error.message))
    return { connection: fromPg(pool), close: () => pool.end() }
  }
  await mkdir(dirname(folder), { recursive: true })
  await ownFolder(folder)
  // PGlite is WebAssembly. Compiled quickly instead of thoroughly it is there in half the time, and this process may not live for long.
  setFlagsFromString('--liftoff-only')
  if (!existsSync(folder)) await initialise(folder)
  const pglite = await PGlite.create(folder)
  return { connection: fromPglite(pglite), close: () => pglite.close() }
}

/** Making a database takes seconds, copying an empty one does not. */
async function initialise(folder: string): Promise<void> {
  const empty = join(dirname(folder), 'empty')
  if (!existsSync(empty)) await whole(empty, async (unfinished) => (await PGlite.create(unfinished)).close())
  await whole(folder, (unfinished) => cp(empty, unfinished, { recursive: true }))
}

/** A start that is interrupted leaves nothing that looks like a database. */
async function whole(folder: string, make: (unfinished: string) => Promise<void>): Promise<void> {
  const unfinished = `${folder}.unfinished`
  await rm(unfinished, { recursive: true, force: true })
  await make(unfinished)
  await rename(unfinished, folder)
}

export async function createTables(database: Connection<unknown>, text: string): Promise<void> {
  await database.transaction((tx) => database.script(tx, text))
}
