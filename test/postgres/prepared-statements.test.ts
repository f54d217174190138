import { expect, test } from 'vitest'
import { fromPg, migrate, postgresStore } from '../../src/stores/postgres/index.js'
import { aClaim, aFinish, take } from '../../src/testing/store-cases/store-case.js'
import { useDatabase } from '../support/postgres/database.js'

const database = useDatabase()

test('are kept on each connection, and only when asked for', async () => {
  for (const prepare of [false, true]) {
    const pool = database.createPool({ max: 1 })
    const store = postgresStore(fromPg(pool, { prepare }))
    for (let count = 0; count < 5; count += 1) await store.keyFinish(aFinish(await take(store, aClaim())))
    const { rows } = await pool.query(`select name from pg_prepared_statements where name like 'oncekey%'`)
    expect(rows.length > 0).toBe(prepare)
  }
})

test('two connections made of one pool do not take each other for themselves', async () => {
  const pool = database.createPool({ max: 1 })
  const stores = [postgresStore(fromPg(pool, { prepare: true })), postgresStore(fromPg(pool, { prepare: true }), { audit: true })]
  for (const store of stores) await store.keyFinish(aFinish(await take(store, aClaim())))
})

test('a table that was empty when they were prepared does not keep the plan of an empty table', async () => {
  const schema = 'fresh'
  const pool = database.createPool({ max: 2 })
  await migrate(fromPg(pool), { schema })
  // Nobody analyses it, so nothing but us makes a new plan.
  await pool.query('alter table fresh.keys set (autovacuum_enabled = false)')
  const store = postgresStore(fromPg(pool, { prepare: true }), { schema })
  const work = async (rounds: number) => {
    for (let round = 0; round < rounds; round += 1) {
      const held = await Promise.all(Array.from({ length: 30 }, () => take(store, aClaim())))
      await Promise.all(held.map((each) => store.keyFinish(aFinish(each))))
    }
  }
  const scans = async () => {
    for (let connection = 0; connection < 4; connection += 1) await pool.query('select pg_stat_force_next_flush()')
    const { rows } = await pool.query(
      `select seq_scan::integer as scans from pg_stat_user_tables where schemaname = 'fresh' and relname = 'keys'`,
    )
    return rows[0].scans as number
  }
  await work(70)
  const before = await scans()
  await work(30)
  expect(await scans()).toBe(before)
})
