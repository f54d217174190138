// migrate() beside processes that work: what it waits for, for how long, and who waits for it.
import { expect, test } from 'vitest'
import { fromPg, migrate, postgresStore } from '../../src/stores/postgres/index.js'
import { migrations } from '../../src/stores/postgres/migrations/compiled.js'
import { aClaim, aFinish, take } from '../../src/testing/store-cases/store-case.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { fill, largeRows, later, longTransaction, nextRelease, observed, p99Of } from './migrating.js'

const database = useDatabase({ migrated: false })
const connection = () => fromPg(database.pool)
const next = [...migrations, later(1, 'add_region', 'alter table :schema.keys add column region text;')]
const indexOnly = [later(1, 'index_reason', 'create index concurrently keys_reason on :schema.keys (tenant, reason);', 'statements')]

async function aSchema(schema: string) {
  await migrate(connection(), { schema })
  const store = postgresStore(connection(), { schema })
  await store.keyFinish(aFinish(await take(store, aClaim())))
  const claim = async () => store.keyFinish(aFinish(await take(store, { ...aClaim(), key: crypto.randomUUID() })))
  return { claim }
}

test('each of its transactions has limits, so that a silent connection ends it', async () => {
  const pooled = fromPg(database.createPool())
  const limits: unknown[] = []
  const connection: typeof pooled = {
    ...pooled,
    transaction(work, times) {
      limits.push(times)
      return pooled.transaction(work, times)
    },
  }
  await migrate(connection, { schema: 'limited' })
  expect(limits.length).toBeGreaterThan(0)
  const limit = expect.any(Number)
  expect(limits).toEqual(limits.map(() => ({ timeoutMs: limit, workMs: limit })))
})

test('with nothing to do it asks two short questions, and waits for no lock', async () => {
  await aSchema('done')
  const other = await database.pool.connect()
  try {
    await other.query(`begin; select pg_advisory_xact_lock(hashtextextended('oncekey migrate done', 0)); lock table done.keys`)
    const { seen, connection: watched } = observed(connection())
    expect(await migrate(watched, { schema: 'done' })).toEqual([])
    expect(seen.transactions).toBe(0)
    expect(seen.sent).toEqual([expect.stringContaining('pg_tables'), expect.stringContaining('.migrations')])
  } finally {
    other.release(true)
  }
})

test('while another process migrates it waits for a limited time, and names the session that does', async () => {
  await aSchema('busy')
  const other = await database.createPool({ application_name: 'stuck deploy' }).connect()
  try {
    await other.query('begin')
    const { rows } = await other.query(
      `select pg_advisory_xact_lock(hashtextextended('oncekey migrate busy', 0))::text, pg_backend_pid() as pid`,
    )
    await expect(migrate(connection(), { schema: 'busy', lockTimeout: '500ms' }, next)).rejects.toMatchObject({
      code: 'migration_blocked',
      message: expect.stringMatching(
        new RegExp(`not finished after 0.5 s. Held by pid ${rows[0].pid} \\(application "stuck deploy", idle in transaction, .* \\d+ s`),
      ),
    })
  } finally {
    other.release(true)
  }
  expect(await migrate(connection(), { schema: 'busy' }, next)).toEqual(['add_region'])
})

test('a table that a long transaction uses is waited for during a limited time, and the session is named', async () => {
  await aSchema('used')
  const report = await longTransaction(database.pool, 'used')
  await expect(migrate(connection(), { schema: 'used', lockTimeout: '500ms' }, next)).rejects.toMatchObject({
    code: 'migration_blocked',
    message: expect.stringMatching(
      new RegExp(`within 0.5 s. Held by pid ${report.pid} \\(application "nightly report", idle in transaction`),
    ),
  })
  await report.end()
  expect(await migrate(connection(), { schema: 'used' }, next)).toEqual(['add_region'])
})

test.each([
  ['done', 'lock table SCHEMA.migrations', migrations],
  ['in batches', 'lock table SCHEMA.keys in share mode', nextRelease],
  ['noted', 'lock table SCHEMA.migrations in share mode', [...migrations, ...indexOnly]],
] as const)(
  'whether a step is %s is asked and written within a limited time, and the session in the way is named',
  async (what, lock, steps) => {
    const schema = `limited_${what.replaceAll(' ', '_')}`
    await aSchema(schema)
    await fill(database.pool, schema, largeRows)
    // The steps before the one with batches.
    if (what === 'in batches') await migrate(connection(), { schema }, steps.slice(0, -1))
    const other = await database.createPool({ application_name: 'a backup' }).connect()
    await other.query(`begin; ${lock.replace('SCHEMA', schema)}`)
    await expect(migrate(connection(), { schema, lockTimeout: '500ms' }, steps)).rejects.toMatchObject({
      code: 'migration_blocked',
      message: expect.stringMatching(/within 0.5 s. Held by .*\(application "a backup"/),
    })
    await other.query('rollback')
    other.release()
    expect(await migrate(connection(), { schema }, steps)).toEqual(
      steps.slice(what === 'in batches' ? -1 : migrations.length).map(({ name }) => name),
    )
  },
)

test('claims do not queue behind a migration that waits for a long transaction', async () => {
  const { claim } = await aSchema('queue')
  const report = await longTransaction(database.pool, 'queue')
  const { seen, connection: watched } = observed(connection())
  const migrating = migrate(watched, { schema: 'queue' }, next)
  let triedLong = false
  // The report ends in any case: else claims that wait for the migration would wait with it.
  const tried = waitUntil('it tried for as long as it ever does', () => seen.transactions > 6, 20_000).finally(() => {
    triedLong = true
    return report.end()
  })
  expect((await p99Of(claim, () => triedLong)).p99).toBeLessThan(1_000)
  await tried
  expect(await migrating).toEqual(['add_region'])
})

test('this release works on while the next one migrates, and afterwards', async () => {
  const { claim } = await aSchema('beside')
  let done = false
  const migrating = migrate(connection(), { schema: 'beside' }, nextRelease).finally(() => {
    done = true
  })
  await p99Of(claim, () => done)
  expect(await migrating).toEqual(['add_region', 'index_region', 'fill_region'])
  await claim()
  expect(await migrate(connection(), { schema: 'beside' })).toEqual([])
})
