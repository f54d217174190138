import { setTimeout } from 'node:timers/promises'
import pg from 'pg'
import { afterAll, beforeAll, inject } from 'vitest'
import { databaseName, onServer } from './template.js'

export interface TestDatabase {
  readonly url: string
  readonly pool: pg.Pool
  /** A pool that is closed after the test file, on this database or another URL. */
  createPool(options?: pg.PoolConfig): pg.Pool
  /** Runs `create … if not exists`, which by itself fails when two do it in the same moment. */
  ensure(statements: string): Promise<unknown>
}

/** A fresh, migrated database for the test file that calls this; it is dropped when the file is done. */
export function useDatabase({ migrated = true } = {}): TestDatabase {
  const name = databaseName('test')
  const server = inject('databaseUrl')
  const url = new URL(server)
  url.pathname = `/${name}`
  const pools: pg.Pool[] = []

  function createPool(options: pg.PoolConfig = {}): pg.Pool {
    const pool = new pg.Pool({ connectionString: url.href, ...options })
    // Tests cut connections on purpose; the statements that were under way report it.
    pool.on('error', () => {})
    pools.push(pool)
    return pool
  }

  beforeAll(async () => {
    await onServer(server, `create database ${name}${migrated ? ` template ${inject('migratedTemplate')}` : ''}`)
  })

  afterAll(async () => {
    // A pool ends when the last client is given back, which a test that failed may never do: then dropping the database ends the session.
    const ended = Promise.all(pools.filter(({ ended }) => !ended).map((pool) => pool.end()))
    await Promise.race([ended, setTimeout(2_000, undefined, { ref: false })])
    await onServer(server, `drop database ${name} with (force)`)
  })

  const pool = createPool({ max: 20 })
  return {
    url: url.href,
    pool,
    createPool,
    // Several statements in one message are one transaction, which ends the lock.
    ensure: (statements) => pool.query(`select pg_advisory_xact_lock(1); ${statements}`),
  }
}
