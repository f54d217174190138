import postgres from 'postgres'
import { expect, onTestFinished, test } from 'vitest'
import { createOnce, type KeyStore, reply } from '../../src/index.js'
import { fromPg, fromPostgresJs, migrate, postgresStore } from '../../src/stores/postgres/index.js'
import { aClaim, aFinish, take } from '../../src/testing/store-cases/store-case.js'
import { usePgbouncer } from '../support/pgbouncer.js'
import { useDatabase } from '../support/postgres/database.js'
import { startProxy } from '../support/postgres/proxy.js'
import { waitUntil } from '../support/wait-until.js'

const database = useDatabase()
const bouncer = await usePgbouncer(database, 'transaction')

type Requests = { readonly each: number; readonly times: number }

/** Claims and finishes of new keys, so many at the same moment, so often. */
async function work(store: KeyStore, { each, times }: Requests): Promise<void> {
  for (let time = 0; time < times; time += 1) {
    const held = await Promise.all(Array.from({ length: each }, () => take(store, aClaim())))
    await Promise.all(held.map((one) => store.keyFinish(aFinish(one))))
  }
}

async function preparedOn(pool: { query(text: string): Promise<{ rows: unknown[] }> }): Promise<number> {
  return (await pool.query(`select from pg_prepared_statements where name like 'oncekey%'`)).rows.length
}

test.each([true, false])('are kept, or not, as the user says (prepare: %s)', async (prepare) => {
  const pool = database.createPool({ max: 1 })
  await work(postgresStore(fromPg(pool, { prepare })), { each: 1, times: 5 })
  expect((await preparedOn(pool)) > 0).toBe(prepare)
})

test('are kept by default where the connections are the server’s own', async () => {
  const pool = database.createPool({ max: 1 })
  const store = postgresStore(fromPg(pool))
  await waitUntil('a statement is prepared', async () => {
    await work(store, { each: 1, times: 1 })
    return (await preparedOn(pool)) > 0
  })
})

test('are planned five times at most, however few requests share them', async () => {
  const pool = database.createPool({ max: 1 })
  const store = postgresStore(fromPg(pool, { prepare: true }))
  for (const each of [1, 2, 5]) await work(store, { each, times: 30 })
  // That many plans Postgres makes for the values of each time, before it compares them with one that is kept.
  const { rows } = await pool.query<{ often: boolean; planned: number }>(
    `select generic_plans > 5 as often, custom_plans::integer as planned from pg_prepared_statements where name like 'oncekey%'`,
  )
  expect(rows.filter(({ often }) => often).length).toBeGreaterThan(3)
  expect(Math.max(...rows.map(({ planned }) => planned))).toBeLessThanOrEqual(5)
})

test('are not kept by default behind a pooler, where the next statement may meet another session', async () => {
  const pool = database.createPool({ connectionString: bouncer, max: 8 })
  const store = postgresStore(fromPg(pool))
  await work(store, { each: 8, times: 10 })
  await work(postgresStore(fromPg(pool), { batch: false }), { each: 8, times: 10 })
  const sessions = await Promise.all(Array.from({ length: 8 }, () => preparedOn(pool)))
  expect(sessions).toEqual(sessions.map(() => 0))
})

test('a connection that breaks while it is found out whose it is ends nothing, and it is found out later', async () => {
  const proxy = await startProxy(database.url)
  const pool = database.createPool({ connectionString: proxy.url, max: 4 })
  const store = postgresStore(fromPg(pool))
  const cut = proxy.swallowReplyTo(/pg_backend_pid/)
  await work(store, { each: 1, times: 1 })
  await cut
  await waitUntil('a statement is prepared', async () => {
    await work(store, { each: 4, times: 1 })
    return (await Promise.all(Array.from({ length: 4 }, () => preparedOn(pool)))).some((count) => count > 0)
  })
})

test('a migration that changes the type of a column fails no statement that was prepared before it', async () => {
  const { pool } = await freshTable('changed')
  const once = createOnce({ store: postgresStore(fromPg(pool, { prepare: true }), { schema: 'changed' }) })
  const operation = once.operation('changed', {}, async (run) => {
    await run.phase('one', () => 1)
    return reply(201)
  })
  for (const key of ['1', '2', '3']) await operation.run({ tenant: 't', key, input: null })
  await pool.query('alter table changed.keys alter column recovery_point type varchar, alter column scope type varchar')
  for (const key of ['4', '5', '6']) expect((await operation.run({ tenant: 't', key, input: null })).kind).toBe('executed')
})

test('are given up, and nothing fails, when somebody discards them', async () => {
  const pool = database.createPool({ max: 1 })
  const store = postgresStore(fromPg(pool, { prepare: true }))
  const once = createOnce({ store })
  const operation = once.operation('discarded', {}, async (run) => {
    await run.phase('one', () => 1)
    await run.phase('two', () => 2)
    return reply(201)
  })
  await operation.run({ tenant: 't', key: 'before', input: null })
  await pool.query('discard all')
  // A transaction meets it first, then a statement by itself.
  const discarding = once.operation('discarding', {}, async (run) => {
    await run.phase('one', () => 1)
    await pool.query('discard all')
    await run.phase('two', () => 2)
    return reply(201)
  })
  expect((await discarding.run({ tenant: 't', key: 'during', input: null })).kind).toBe('executed')
  await pool.query('discard all')
  expect((await operation.run({ tenant: 't', key: 'after', input: null })).kind).toBe('executed')
})

test('are given up, and nothing fails, when the session has their name of somebody else', async () => {
  const pool = database.createPool({ max: 1 })
  const store = postgresStore(fromPg(pool, { prepare: true }))
  await work(store, { each: 1, times: 1 })
  const { rows: names } = await pool.query<{ name: string }>(`select name from pg_prepared_statements where name like 'oncekey%'`)
  const {
    rows: [session],
  } = await pool.query<{ pid: number }>('select pg_backend_pid() as pid')
  await database.pool.query('select pg_terminate_backend($1)', [session?.pid])
  await waitUntil('the pool has another session', async () => (await preparedOn(pool).catch(() => 1)) === 0)
  for (const { name } of names) await pool.query(`prepare "${name}" as select 1`)
  await work(store, { each: 1, times: 1 })
})

test('a transaction in which they turn out to be discarded is made again', async () => {
  const pool = database.createPool({ max: 1 })
  const once = createOnce({ store: postgresStore(fromPg(pool, { prepare: true })) })
  let attempts = 0
  const operation = once.operation('in-transaction', {}, async (run) => {
    await run.phase('one', () => 1)
    await run.phase('two', async (tx) => {
      attempts += 1
      if (attempts === 1) await tx.query('deallocate all')
    })
    return reply(201)
  })
  expect((await operation.run({ tenant: 't', key: 'k', input: null })).kind).toBe('executed')
  expect(attempts).toBe(2)
})

test('two connections made of one pool do not take each other for themselves', async () => {
  const pool = database.createPool({ max: 1 })
  const stores = [postgresStore(fromPg(pool, { prepare: true })), postgresStore(fromPg(pool, { prepare: true }), { audit: true })]
  for (const store of stores) await work(store, { each: 1, times: 1 })
})

/** A table that nobody analyses, so that nothing but us makes a new plan, and how often it was read in whole. */
async function freshTable(schema: string, table = 'keys') {
  const pool = database.createPool({ max: 2 })
  await migrate(fromPg(pool), { schema })
  await pool.query(`alter table ${schema}.${table} set (autovacuum_enabled = false)`)
  // Of a table that was never looked at, Postgres assumes ten pages. This one is known to be empty.
  await pool.query(`vacuum analyze ${schema}.${table}`)
  const scans = async () => {
    for (let connection = 0; connection < 4; connection += 1) await pool.query('select pg_stat_force_next_flush()')
    const { rows } = await pool.query(
      `select seq_scan::integer as scans from pg_stat_user_tables where schemaname = '${schema}' and relname = '${table}'`,
    )
    return rows[0].scans as number
  }
  return { pool, scans }
}

test.each(['pg', 'postgres.js'])('a table that grows does not keep the plans of an empty one (%s)', async (driver) => {
  const schema = driver === 'pg' ? 'grown' : 'grown_js'
  const { pool, scans } = await freshTable(schema)
  const sql = postgres(database.url, { max: 2 })
  onTestFinished(() => sql.end({ timeout: 0 }))
  const store =
    driver === 'pg' ? postgresStore(fromPg(pool, { prepare: true }), { schema }) : postgresStore(fromPostgresJs(sql), { schema })
  await work(store, { each: 1, times: 20 })
  await work(store, { each: 30, times: 70 })
  if (driver !== 'pg') await sql`select pg_stat_force_next_flush()`
  const before = await scans()
  await work(store, { each: 30, times: 20 })
  await work(store, { each: 1, times: 20 })
  if (driver !== 'pg') for (let time = 0; time < 4; time += 1) await sql`select pg_stat_force_next_flush()`
  expect(await scans()).toBe(before)
})

test('nor does one that was emptied, and grows again', async () => {
  const { pool, scans } = await freshTable('emptied')
  const store = postgresStore(fromPg(pool, { prepare: true }), { schema: 'emptied' })
  await work(store, { each: 30, times: 70 })
  // All plans are made anew, for what there is then: nothing.
  await pool.query('truncate emptied.keys cascade')
  await pool.query('vacuum analyze emptied.keys')
  await work(store, { each: 1, times: 20 })
  await work(store, { each: 30, times: 70 })
  const before = await scans()
  await work(store, { each: 30, times: 20 })
  await work(store, { each: 1, times: 20 })
  expect(await scans()).toBe(before)
})

test('nor does a process with few requests, while others fill the table', async () => {
  const { pool, scans } = await freshTable('quiet')
  const quiet = postgresStore(fromPg(pool, { prepare: true }), { schema: 'quiet' })
  await work(quiet, { each: 1, times: 20 })
  await work(quiet, { each: 4, times: 20 })
  await pool.query(`
    insert into quiet.keys (tenant, id, scope, key, state, incarnation, owner, fence, after_failure, created_at, locked_until, due_at, expires_at, reap_after)
    select 'many', gen_random_uuid(), 's', n::text, 'processing', gen_random_uuid(), gen_random_uuid(), 1, 'rerun', now(), now(), now(), now(), now()
    from generate_series(1, 30000) as n`)
  // This one still looks for its key by the old plan, and tells the size: from then on all statements are planned for it.
  await work(quiet, { each: 1, times: 1 })
  const before = await scans()
  await work(quiet, { each: 1, times: 5 })
  await work(quiet, { each: 4, times: 5 })
  expect(await scans()).toBe(before)
})

test('nor does a relay that had nothing to do, when jobs have piled up', async () => {
  const { pool, scans } = await freshTable('idle', 'jobs')
  const { outbox } = postgresStore(fromPg(pool, { prepare: true }), { schema: 'idle' })
  const take = async () => {
    const token = crypto.randomUUID()
    const { jobs } = await outbox.jobsTake({ token, leaseMs: 60_000, limit: 50, heldByDead: true })
    await outbox.jobsSettle({ jobs: jobs.map(({ tenant, id }) => ({ tenant, id, token, as: 'delivered' as const })) })
    return jobs.length
  }
  for (let time = 0; time < 20; time += 1) expect(await take()).toBe(0)
  await pool.query(`
    insert into idle.jobs (tenant, id, key_id, incarnation, name, payload, staged_at, due_at)
    select 'many', gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'mail', '{}', now(), now() from generate_series(1, 20000)`)
  // The first take tells the size.
  expect(await take()).toBe(50)
  const before = await scans()
  for (let time = 0; time < 10; time += 1) expect(await take()).toBe(50)
  expect(await scans()).toBe(before)
})
