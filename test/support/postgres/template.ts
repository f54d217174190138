import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { fromPg, migrate } from '../../../src/stores/postgres/index.js'

/** A name that no database on the server has. */
export function databaseName(kind: 'test' | 'template'): string {
  return `oncekey_${kind}_${randomBytes(6).toString('hex')}`
}

/** A migrated database that nobody uses, so that the server can copy it: migrating in a hundred files takes longer. */
export async function createTemplate(server: string): Promise<string> {
  const name = databaseName('template')
  await onServer(server, `create database ${name}`)
  const url = new URL(server)
  url.pathname = `/${name}`
  const pool = new pg.Pool({ connectionString: url.href })
  try {
    await migrate(fromPg(pool))
  } finally {
    await pool.end()
  }
  return name
}

/** Carries out what cannot be done from within the database that it is about. */
export async function onServer(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}
