// Upgrades of tables that are too large for one transaction.
import { PGlite } from '@electric-sql/pglite'
import { expect, test } from 'vitest'
import { fromPg, fromPglite, migrate, postgresStore } from '../../src/stores/postgres/index.js'
import { migrations } from '../../src/stores/postgres/migrations/compiled.js'
import { aClaim, aFinish, take } from '../../src/testing/store-cases/store-case.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import {
  fill,
  fillSecondRelease,
  insertOfSecondRelease,
  largeRows,
  longTransaction,
  nextRelease,
  observed,
  p99Of,
  secondRelease,
} from './migrating.js'

const database = useDatabase({ migrated: false })
const connection = () => fromPg(database.pool)
const names = migrations.map(({ name }) => name)

/** Columns, constraints and indexes, by their definitions. */
async function definitionOf(schema: string) {
  const { rows } = await database.pool.query(
    `select table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable || ' ' || coalesce(column_default, '') as line
       from information_schema.columns where table_schema = $1
     union all
     select conrelid::regclass::text || ' ' || conname || ' ' || pg_get_constraintdef(c.oid) || ' ' || convalidated
       from pg_constraint as c join pg_namespace as n on n.oid = c.connamespace where nspname = $1
     union all
     select indexdef || ' ' || i.indisvalid from pg_indexes join pg_index as i on i.indexrelid = (schemaname || '.' || indexname)::regclass
       where schemaname = $1
     order by line`,
    [schema],
  )
  return rows.map(({ line }) => String(line).replaceAll(`${schema}.`, ''))
}

const unfinished = (schema: string) =>
  database.pool
    .query(`select key, waiting, due_at > '-infinity' as due from ${schema}.keys where state in ('pending', 'processing') order by key`)
    .then(({ rows }) => rows)

test('ends where a fresh database begins, with indexes that were built concurrently', async () => {
  await migrate(connection(), { schema: 'fresh' })
  await fillSecondRelease(database.pool, connection(), 'grown')
  const { seen, connection: watched } = observed(connection())
  expect(await migrate(watched, { schema: 'grown' })).toEqual(names.slice(2))
  expect(seen.sent.filter((text) => text.startsWith('create index concurrently'))).toHaveLength(6)
  expect(await definitionOf('grown')).toEqual(await definitionOf('fresh'))
  expect(await unfinished('grown')).toEqual([
    { key: 'held', waiting: false, due: true },
    { key: 'waits', waiting: true, due: false },
  ])
})

test('a small table of an earlier release ends there as well, in one transaction', async () => {
  await migrate(connection(), { schema: 'new' })
  await fillSecondRelease(database.pool, connection(), 'small', 10)
  const { seen, connection: watched } = observed(connection())
  expect(await migrate(watched, { schema: 'small' })).toEqual(names.slice(2))
  expect(seen.sent.filter((text) => text.includes('index'))).toEqual([])
  expect(await definitionOf('small')).toEqual(await definitionOf('new'))
  expect(await unfinished('small')).toHaveLength(2)
})

test('an index whose build was interrupted is dropped and built again', async () => {
  const schema = 'interrupted'
  await fillSecondRelease(database.pool, connection(), schema)
  await database.pool.query(`alter table ${schema}.keys add column due_at timestamptz`)
  const report = await longTransaction(database.pool, schema)
  const builder = await database.pool.connect()
  await builder.query(`set statement_timeout = '500ms'`)
  await expect(builder.query(`create index concurrently keys_due_at on ${schema}.keys (due_at)`)).rejects.toMatchObject({ code: '57014' })
  builder.release(true)
  await report.end()
  const steps = migrations.slice(0, 2).concat({
    version: 3,
    name: 'indexes',
    breaking: false,
    mode: 'statements',
    sql: 'create index concurrently keys_due_at on :schema.keys (due_at);',
  })
  expect(await migrate(connection(), { schema }, steps)).toEqual(['indexes'])
  const { rows } = await database.pool.query(`select indisvalid from pg_index where indexrelid = '${schema}.keys_due_at'::regclass`)
  expect(rows).toEqual([{ indisvalid: true }])
})

test('an upgrade that broke off goes on after the step that is noted last', async () => {
  const schema = 'halfway'
  await fillSecondRelease(database.pool, connection(), schema)
  const broken = migrations.map((step) => (step.version === 6 ? { ...step, sql: 'select 1/0;' } : step))
  await expect(migrate(connection(), { schema }, broken)).rejects.toMatchObject({ code: 'store_failed' })
  expect(await migrate(connection(), { schema })).toEqual(names.slice(5))
})

test('processes of the release before write their keys until the step that is marked as breaking', async () => {
  for (const steps of migrations.map((_, index) => migrations.slice(0, index + 1)).slice(secondRelease.length - 1)) {
    const schema = `beside_${steps.length}`
    await migrate(connection(), { schema }, steps)
    const writes = await database.pool
      .query(
        `${insertOfSecondRelease(schema)} ('t', gen_random_uuid(), 's', 'k', 'processing', now(), gen_random_uuid(), gen_random_uuid(), 1, 'rerun', now(), 'infinity', 'infinity');
         update ${schema}.keys set state = 'pending', locked_until = null`,
      )
      .then(
        () => true,
        () => false,
      )
    expect([steps.at(-1)?.name, writes]).toEqual([steps.at(-1)?.name, !steps.some(({ breaking }) => breaking)])
  }
})

const long = process.env.ONCEKEY_LONG === '1'
const loadedRows = long ? 10_000_000 : largeRows

test('claims go on beside the upgrade of a large table and a long transaction', { timeout: 3_600_000 }, async () => {
  const schema = 'loaded'
  await migrate(connection(), { schema })
  await fill(database.pool, schema, loadedRows)
  const store = postgresStore(connection(), { schema })
  const claim = async () => store.keyFinish(aFinish(await take(store, { ...aClaim(), key: crypto.randomUUID() })))
  const report = await longTransaction(database.pool, schema)
  let done = false
  const { seen, connection: watched } = observed(fromPg(database.createPool()))
  const migrating = migrate(watched, { schema }, nextRelease).finally(() => {
    done = true
  })
  const ending = waitUntil('it tried several times', () => seen.transactions > 4, 20_000).finally(report.end)
  const began = performance.now()
  const { calls, p99 } = await p99Of(claim, () => done)
  await ending
  expect(await migrating).toEqual(['add_region', 'index_region', 'fill_region'])
  if (long) {
    const seconds = Math.round((performance.now() - began) / 1_000)
    process.stdout.write(`${loadedRows} rows migrated in ${seconds} s beside ${calls} claims, p99 ${Math.round(p99)} ms\n`)
  }
  expect(p99).toBeLessThan(1_000)
  const { rows } = await database.pool.query(`select count(*)::int as count from ${schema}.keys where region = 'us'`)
  expect(rows).toEqual([{ count: loadedRows }])
})

test('a pool of one connection is told that it needs two', async () => {
  await fillSecondRelease(database.pool, connection(), 'narrow')
  const one = fromPg(database.createPool({ max: 1 }))
  await expect(migrate(one, { schema: 'narrow' })).rejects.toMatchObject({
    code: 'option_invalid',
    message: expect.stringContaining('two connections'),
  })
  expect(await migrate(connection(), { schema: 'narrow' })).toEqual(names.slice(2))
})

test('a statement_timeout that ends an index build is named, and the next call goes on', async () => {
  const schema = 'hurried'
  await fillSecondRelease(database.pool, connection(), schema)
  await migrate(connection(), { schema }, migrations.slice(0, 4))
  const report = await longTransaction(database.pool, schema)
  const hurried = fromPg(database.createPool({ statement_timeout: 500 }))
  await expect(migrate(hurried, { schema })).rejects.toMatchObject({
    code: 'migration_blocked',
    message: expect.stringContaining('statement_timeout'),
  })
  await report.end()
  expect(await migrate(connection(), { schema })).toEqual(names.slice(4))
})

test('an index build that waits for a long transaction ends in time, and names it', async () => {
  const schema = 'waiting'
  await fillSecondRelease(database.pool, connection(), schema)
  await migrate(connection(), { schema }, migrations.slice(0, 4))
  const report = await longTransaction(database.pool, schema)
  await expect(migrate(connection(), { schema, lockTimeout: '500ms' })).rejects.toMatchObject({
    code: 'migration_blocked',
    message: expect.stringMatching(
      new RegExp(`waited for 0.5 s in: create index .* Held by pid ${report.pid} \\(application "nightly report"`),
    ),
  })
  const building = `select from pg_stat_activity where datname = current_database() and state = 'active' and query like 'create index%'`
  expect((await database.pool.query(building)).rowCount).toBe(0)
  await report.end()
  expect(await migrate(connection(), { schema })).toEqual(names.slice(4))
})

test('an index build that waits for a transaction without locks on tables names it, too', async () => {
  const schema = 'snapshot'
  await fillSecondRelease(database.pool, connection(), schema)
  await migrate(connection(), { schema }, migrations.slice(0, 4))
  const other = await database.pool.connect()
  try {
    await other.query('begin isolation level repeatable read; select txid_current()')
    const { rows } = await other.query('select pg_backend_pid() as pid')
    await expect(migrate(connection(), { schema, lockTimeout: '500ms' })).rejects.toMatchObject({
      code: 'migration_blocked',
      message: expect.stringContaining(`Held by pid ${rows[0].pid} (`),
    })
  } finally {
    await other.query('rollback')
    other.release()
  }
  expect(await migrate(connection(), { schema })).toEqual(names.slice(4))
})

test('an index build does not wait for the transaction of its own lock', async () => {
  const schema = 'own_lock'
  await fillSecondRelease(database.pool, connection(), schema)
  await migrate(connection(), { schema }, migrations.slice(0, 4))
  const pooled = connection()
  // A look from within that transaction is under way nearly always.
  const slowly = (text: string) => text.replace('where datname', 'where (select pg_sleep(0.3)::text) is not null and datname')
  const slow: typeof pooled = {
    ...pooled,
    within: (tx) => ({ ...pooled.within(tx), query: (text, ...more) => pooled.within(tx).query(slowly(text), ...more) }),
  }
  // Looks begin while the build waits for another transaction, and go on while it does the rest.
  const report = await longTransaction(database.pool, schema)
  const migrating = migrate(slow, { schema, lockTimeout: '3s' })
  await new Promise((resolve) => setTimeout(resolve, 1_000))
  await report.end()
  expect(await migrating).toEqual(names.slice(4))
})

test('an embedded database, which has one session, is upgraded in one transaction', async () => {
  const db = new PGlite()
  try {
    const schema = 'embedded'
    const embedded = fromPglite(db)
    const query = async (text: string) => ({ rows: (await db.exec(text)).at(-1)?.rows ?? [] })
    await fillSecondRelease({ query } as never, embedded, schema)
    expect(await migrate(embedded, { schema })).toEqual(names.slice(2))
  } finally {
    await db.close()
  }
})
