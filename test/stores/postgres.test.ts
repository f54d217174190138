import { PGlite } from '@electric-sql/pglite'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { fromPg, fromPglite, fromPostgresJs, migrate } from '../../src/stores/postgres/index.js'
import { exerciseStore } from '../../src/testing/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { postgresHarness } from '../support/postgres/harness.js'

const database = useDatabase()

describe('through a pool of pg', () => {
  exerciseStore({ test, setup: () => postgresHarness(fromPg(database.pool)) })
})

describe('through a pool of pg with one connection', () => {
  exerciseStore({ test, setup: () => postgresHarness(fromPg(database.createPool({ max: 1 }))) })
})

describe('through a pool of pg with prepared statements', () => {
  exerciseStore({ test, setup: () => postgresHarness(fromPg(database.pool, { prepare: true })) })
})

describe('through postgres.js', () => {
  const sql = postgres(database.url, { max: 10, onnotice: () => {} })
  afterAll(() => sql.end())
  exerciseStore({ test, setup: () => postgresHarness(fromPostgresJs(sql)) })
})

describe('through PGlite', () => {
  const db = new PGlite()
  beforeAll(() => migrate(fromPglite(db)))
  afterAll(() => db.close())
  exerciseStore({ test, setup: () => postgresHarness(fromPglite(db)) })
})

describe('in a schema with an awkward name', () => {
  const schema = 'my "keys"; $& drop table --'
  beforeAll(() => migrate(fromPg(database.pool), { schema }))
  exerciseStore({ test, setup: () => postgresHarness(fromPg(database.pool), { schema }) })
})

describe('when every transaction is serializable by default', () => {
  const options = '-c default_transaction_isolation=serializable'
  exerciseStore({ test, setup: () => postgresHarness(fromPg(database.createPool({ max: 20, options }))) })
})
