import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createOnce, reply } from '../../src/index.js'
import { fromPg, fromPostgresJs, migrate, postgresStore } from '../../src/stores/postgres/index.js'
import { exerciseStore } from '../../src/testing/index.js'
import { usePgbouncer } from '../support/pgbouncer.js'
import { useDatabase } from '../support/postgres/database.js'
import { emptyHarness } from '../support/postgres/harness.js'

const database = useDatabase({ migrated: false })
// In transaction mode consecutive statements of one client may run in different sessions.
const bouncer = await usePgbouncer(database, 'transaction')

beforeAll(async () => {
  await migrate(fromPg(database.createPool({ connectionString: bouncer })))
})

describe('through pg', () => {
  const pool = database.createPool({ connectionString: bouncer, max: 10 })
  exerciseStore({ test, setup: () => emptyHarness(fromPg(pool)) })
})

describe('through postgres.js', () => {
  const sql = postgres(bouncer, { max: 10, prepare: false, onnotice: () => {} })
  afterAll(() => sql.end())
  exerciseStore({ test, setup: () => emptyHarness(fromPostgresJs(sql)) })
})

test('runs each of 50 keys once with more clients than the pooler has sessions, heartbeats included', async () => {
  const pool = database.createPool({ connectionString: bouncer, max: 40 })
  const once = createOnce({ store: postgresStore(fromPg(pool)), lease: '1m', storeTimeout: '1m' })
  let runs = 0
  const outcomes = await Promise.all(
    Array.from({ length: 200 }, (_, index) =>
      once.execute({ tenant: 'bouncer', scope: 's', key: `key-${index % 50}`, fingerprint: false, afterFailure: 'rerun' }, async () => {
        runs += 1
        return reply(200)
      }),
    ),
  )
  expect(runs).toBe(50)
  expect(outcomes.filter(({ kind }) => kind === 'executed')).toHaveLength(50)
})
