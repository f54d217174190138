import postgres from 'postgres'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { fromPg, fromPostgresJs, migrate } from '../../src/stores/postgres/index.js'
import { exerciseStore } from '../../src/testing/index.js'
import { connectionTo } from '../support/postgres/connection.js'
import { useDatabase } from '../support/postgres/database.js'
import { emptyHarness } from '../support/postgres/harness.js'

const database = useDatabase()

describe('through a pool of pg', () => {
  // A new one each time, which finds out meanwhile whether it may prepare its statements.
  exerciseStore({ test, setup: () => emptyHarness(fromPg(database.pool)) })
})

describe('through a pool of pg with one connection', () => {
  const connection = fromPg(database.createPool({ max: 1 }))
  exerciseStore({ test, setup: () => emptyHarness(connection) })
})

describe('through a pool of pg with prepared statements', () => {
  const connection = fromPg(database.pool, { prepare: true })
  exerciseStore({ test, setup: () => emptyHarness(connection) })
})

describe('through postgres.js', () => {
  const sql = postgres(database.url, { max: 10, onnotice: () => {} })
  afterAll(() => sql.end())
  exerciseStore({ test, setup: () => emptyHarness(fromPostgresJs(sql)) })
})

describe('in the form for distributed tables', () => {
  exerciseStore({ test, setup: () => emptyHarness(connectionTo(database.pool), { distributed: true }) })
})

describe('in a schema with an awkward name', () => {
  const schema = 'my "keys"; $& drop table --'
  beforeAll(() => migrate(connectionTo(database.pool), { schema }))
  exerciseStore({ test, setup: () => emptyHarness(connectionTo(database.pool), { schema }) })
})

describe('when every transaction is serializable by default', () => {
  const connection = fromPg(database.createPool({ max: 20, options: '-c default_transaction_isolation=serializable' }))
  exerciseStore({ test, setup: () => emptyHarness(connection) })
})
