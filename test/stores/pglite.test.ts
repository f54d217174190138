import { PGlite } from '@electric-sql/pglite'
import { sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/pglite'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { fromDrizzle, fromPglite, migrate } from '../../src/stores/postgres/index.js'
import { exerciseStore } from '../../src/testing/index.js'
import { emptyHarness } from '../support/postgres/harness.js'

const long = process.env.ONCEKEY_LONG === '1'

// One database for both ways to it: it keeps the process busy for seconds while it starts.
let db: PGlite
beforeAll(async () => {
  db = new PGlite()
  await migrate(fromPglite(db))
})
afterAll(() => db.close())

describe('through PGlite', () => {
  exerciseStore({ test, setup: () => emptyHarness(fromPglite(db)) })
})

describe('through Drizzle on PGlite', () => {
  // Both are tried with all cases, Drizzle in test/connections/. What is left is how values and transactions pass from the one to the other.
  const passing = /byte for byte|transaction|commit|user's writes|recovery point|enqueue: |job/
  let tried = 0
  const some = (name: string, run: () => Promise<void>) => {
    if (!long && !passing.test(name)) return
    tried += 1
    test(name, run)
  }
  exerciseStore({ test: some, setup: () => emptyHarness(fromDrizzle(drizzle(db), sql)) })

  test('the cases have the names that they are chosen by', () => {
    expect(tried).toBeGreaterThanOrEqual(25)
  })
})
