import pg from 'pg'
import { expect, test } from 'vitest'
import { fromPg, migrate, migrationSql, postgresStore } from '../../src/stores/postgres/index.js'
import { checkSchema } from '../../src/stores/postgres/migrate.js'
import { migrations } from '../../src/stores/postgres/migrations/compiled.js'
import { aClaim, aFinish, assertReplays, take } from '../../src/testing/store-cases/store-case.js'
import { startChild } from '../support/child.js'
import { useDatabase } from '../support/postgres/database.js'

const database = useDatabase({ migrated: false })
const connection = () => fromPg(database.pool)

async function applied(schema: string) {
  const { rows } = await database.pool.query(`select version, name from "${schema}".migrations order by version`)
  return rows
}

/** A later release: this one's migrations and one more. */
function laterRelease(breaking: boolean) {
  const sql = 'create table :schema.later (id integer);'
  return [...migrations, { version: migrations.length + 1, name: 'create_later', breaking, sql }]
}

test('lets ten processes migrate at once', { timeout: 120_000 }, async () => {
  const children = Array.from({ length: 10 }, () => startChild('postgres/migrator.ts', { url: database.url, schema: 'ten' }))
  for (const child of children) expect(await child.message()).toBe('ready')
  for (const child of children) child.send('go')
  const results = await Promise.all(children.map((child) => child.message<string[] | { error: string }>()))
  const names = migrations.map(({ name }) => name)
  expect(results.filter((result) => Array.isArray(result) && result.length === names.length)).toHaveLength(1)
  expect(results.filter((result) => Array.isArray(result) && result.length === 0)).toHaveLength(9)
  expect(await applied('ten')).toEqual(migrations.map(({ version, name }) => ({ version, name })))
})

test('applies only what is missing, and nothing the second time', async () => {
  expect(await migrate(connection(), { schema: 'steps' })).toEqual(migrations.map(({ name }) => name))
  expect(await migrate(connection(), { schema: 'steps' })).toEqual([])
  expect(await migrate(connection(), { schema: 'steps' }, laterRelease(false))).toEqual(['create_later'])
})

test('rolls everything back when a step fails', async () => {
  const broken = [...migrations, { version: migrations.length + 1, name: 'broken', breaking: false, sql: 'select 1/0;' }]
  await expect(migrate(connection(), { schema: 'broken' }, broken)).rejects.toMatchObject({ code: 'store_failed' })
  const { rows } = await database.pool.query(`select 1 from pg_namespace where nspname = 'broken'`)
  expect(rows).toEqual([])
})

test('goes on working with a newer schema that does not break it, and refuses one that does', async () => {
  await migrate(connection(), { schema: 'newer' }, laterRelease(false))
  expect(await migrate(connection(), { schema: 'newer' })).toEqual([])
  const store = postgresStore(connection(), { schema: 'newer' })
  expect((await store.keyClaim(aClaim())).kind).toBe('execute')

  await migrate(connection(), { schema: 'breaking' }, laterRelease(true))
  await expect(migrate(connection(), { schema: 'breaking' })).rejects.toMatchObject({ code: 'schema_too_new' })
  const old = postgresStore(connection(), { schema: 'breaking' })
  await expect(old.keyClaim(aClaim())).rejects.toMatchObject({ code: 'schema_too_new' })
})

test('refuses a history that is not its own', async () => {
  const history = async (schema: string, change: string) => {
    await migrate(connection(), { schema }, laterRelease(false))
    await database.pool.query(change.replaceAll('SCHEMA', `"${schema}"`))
    return expect(migrate(connection(), { schema }, laterRelease(false))).rejects.toMatchObject({ code: 'migration_out_of_order' })
  }
  await history('renamed', `update SCHEMA.migrations set name = 'something_else' where version = 1`)
  await history('gap', 'delete from SCHEMA.migrations where version = 1')
  await history('skipped', `insert into SCHEMA.migrations (version, name, breaking) values (99, 'far_away', false)`)
})

test('says what to do when the migration is missing or out of date', async () => {
  const never = postgresStore(connection(), { schema: 'never' })
  await expect(never.keyClaim(aClaim())).rejects.toMatchObject({ code: 'schema_missing', message: expect.stringContaining('migrate()') })
  await migrate(connection(), { schema: 'behind' })
  await expect(checkSchema(connection(), 'behind', laterRelease(false))).rejects.toMatchObject({ code: 'schema_outdated' })
  // And it recovers without a restart.
  await migrate(connection(), { schema: 'never' })
  expect((await never.keyClaim(aClaim())).kind).toBe('execute')
})

test('prints SQL that makes the same schema, for people who run their own migrations', async () => {
  const schema = 'by "hand"'
  await database.pool.query(migrationSql({ schema }))
  expect(await migrate(connection(), { schema })).toEqual([])
  const store = postgresStore(connection(), { schema })
  const claim = aClaim()
  await store.keyFinish(aFinish(await take(store, claim)))
  await assertReplays(store, claim)
})

test('needs no right to create schemas when the schema was made for it', async () => {
  await database.pool.query(`
    drop role if exists oncekey_limited;
    create role oncekey_limited login;
    create schema given authorization oncekey_limited;`)
  const url = new URL(database.url)
  url.username = 'oncekey_limited'
  const pool = new pg.Pool({ connectionString: url.href })
  try {
    expect(await migrate(fromPg(pool), { schema: 'given' })).toEqual(migrations.map(({ name }) => name))
    await expect(migrate(fromPg(pool), { schema: 'not_given' })).rejects.toMatchObject({ code: 'store_forbidden' })
  } finally {
    await pool.end()
    await database.pool.query('drop owned by oncekey_limited cascade; drop role oncekey_limited')
  }
})

test('refuses schema names that are none', async () => {
  for (const schema of ['', 'a\0b', 'x'.repeat(64)]) {
    expect(() => postgresStore(connection(), { schema })).toThrow(expect.objectContaining({ code: 'option_invalid' }))
    await expect(migrate(connection(), { schema })).rejects.toMatchObject({ code: 'option_invalid' })
  }
})

test('the sweeper finds what was held before there was one, and passes over what was finished then', async () => {
  const schema = 'before_upkeep'
  await migrate(connection(), { schema }, migrations.slice(0, 2))
  await database.pool.query(`
    insert into ${schema}.keys (tenant, id, scope, key, state, locked_until, answer_status, answer_headers, incarnation, owner, fence, after_failure, created_at, expires_at, reap_after)
    select 't', gen_random_uuid(), 's', n::text, case when n = 1 then 'processing' else 'complete' end, case when n = 1 then now() - interval '1 day' end,
           case when n > 1 then 200 end, case when n > 1 then '[]' end, gen_random_uuid(), gen_random_uuid(), 1, 'rerun', now(), 'infinity', 'infinity'
    from generate_series(1, 50) as n`)
  await migrate(connection(), { schema })
  const { upkeep } = postgresStore(connection(), { schema })
  const page = await upkeep.keysSweep({ holder: crypto.randomUUID(), turnMs: 1_000, limit: 10 })
  expect(page).toMatchObject({ swept: [{ key: '1', to: 'pending' }], lookedUpTo: null })
})
