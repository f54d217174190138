import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, inject } from 'vitest'
import { fromPg, migrate } from '../../../src/stores/postgres/index.js'

export interface TestDatabase {
  readonly url: string
  readonly pool: pg.Pool
  /** A pool that is closed after the test file, on this database or another URL. */
  createPool(options?: pg.PoolConfig): pg.Pool
}

/** A fresh, migrated database for the test file that calls this; it is dropped when the file is done. */
export function useDatabase({ migrated = true } = {}): TestDatabase {
  const name = `oncekey_test_${randomBytes(6).toString('hex')}`
  const server = inject('databaseUrl')
  const url = new URL(server)
  url.pathname = `/${name}`
  const pools: pg.Pool[] = []

  const database: TestDatabase = {
    url: url.href,
    get pool() {
      return pools[0] as pg.Pool
    },
    createPool(options = {}) {
      const pool = new pg.Pool({ connectionString: url.href, ...options })
      // Tests cut connections on purpose; the statements that were under way report it.
      pool.on('error', () => {})
      pools.push(pool)
      return pool
    },
  }

  beforeAll(async () => {
    await onServer(server, `create database ${name}`)
    database.createPool({ max: 20 })
    if (migrated) await migrate(fromPg(database.pool))
  })

  afterAll(async () => {
    await Promise.all(pools.filter(({ ended }) => !ended).map((pool) => pool.end()))
    await onServer(server, `drop database ${name} with (force)`)
  })

  return database
}

async function onServer(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}
