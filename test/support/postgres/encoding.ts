import pg from 'pg'
import { afterAll, beforeAll, inject } from 'vitest'
import { fromPg, migrate } from '../../../src/stores/postgres/index.js'
import { databaseName, onServer } from './template.js'

/** A database whose texts have this encoding, for the tests of the group that calls this. */
export function useEncoding(encoding: string) {
  const name = databaseName('test')
  const url = new URL(inject('databaseUrl'))
  url.pathname = `/${name}`
  const pool = new pg.Pool({ connectionString: url.href, max: 5 })
  // A session that is just ending hears that its database is dropped.
  pool.on('error', () => {})
  beforeAll(async () => {
    await onServer(inject('databaseUrl'), `create database ${name} template template0 encoding '${encoding}' locale 'C'`)
    await migrate(fromPg(pool))
  })
  afterAll(async () => {
    await pool.end()
    await onServer(inject('databaseUrl'), `drop database ${name} with (force)`)
  })
  return pool
}
