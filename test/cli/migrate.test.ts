import { expect, test } from 'vitest'
import { fromPg, migrate, migrationSql } from '../../src/stores/postgres/index.js'
import { migrations } from '../../src/stores/postgres/migrations/compiled.js'
import { useDatabase } from '../support/postgres/database.js'
import { commandLine } from './command-line.js'

const database = useDatabase({ migrated: false })
const oncekey = commandLine(database.url)
const names = migrations.map(({ name }) => name)

test('says what is missing, applies it, and finds nothing more to do', async () => {
  const schema = ['--schema', 'fresh']
  expect(await oncekey('migrate', '--check', '--json', ...schema)).toMatchObject({
    exitCode: 5,
    data: { schema: 'fresh', applied: [], pending: names },
  })
  const { exitCode, data } = await oncekey('migrate', '--yes', '--json', ...schema)
  expect(exitCode).toBe(0)
  expect(data).toEqual({ schema: 'fresh', applied: names, pending: [], appliedNow: names })
  expect(await oncekey('migrate', '--check', ...schema)).toMatchObject({ exitCode: 0, out: 'Schema fresh is up to date.\n' })
  // Nothing to do, nothing to ask.
  expect((await oncekey('migrate', ...schema)).exitCode).toBe(0)
})

test('brings an older schema up to this release', async () => {
  await migrate(fromPg(database.pool), { schema: 'older' }, migrations.slice(0, 2))
  const { exitCode, out } = await oncekey('migrate', '--check', '--schema', 'older')
  expect(exitCode).toBe(5)
  expect(out).toContain('  background_work\n')
  expect((await oncekey('migrate', '--yes', '--schema', 'older')).out).toContain('applied background_work\n')
})

test('asks first', async () => {
  const ask = async (question: string) => (question.includes('create_keys') ? 'n' : 'y')
  expect((await commandLine(database.url, { ask })('migrate', '--schema', 'asked')).exitCode).toBe(3)
  expect((await oncekey('migrate', '--schema', 'asked')).exitCode).toBe(2)
  expect((await database.pool.query(`select from pg_namespace where nspname = 'asked'`)).rows).toEqual([])
})

test('prints the SQL without any database', async () => {
  const alone = commandLine(undefined)
  expect((await alone('migrate', '--print', '--schema', 'a b')).out).toBe(migrationSql({ schema: 'a b' }))
  expect((await alone('migrate', '--print', '--json')).data).toEqual({ schema: 'oncekey', sql: migrationSql() })
  expect((await alone('migrate', '--print', '--check')).exitCode).toBe(2)
})

test('refuses a schema of a newer release that breaks this one', async () => {
  const next = { version: migrations.length + 1, name: 'next', breaking: true, sql: '' }
  await migrate(fromPg(database.pool), { schema: 'newer' }, [...migrations, next])
  for (const words of [['--check'], ['--yes']]) {
    const { exitCode, data } = await oncekey('migrate', ...words, '--schema', 'newer', '--json')
    expect([exitCode, data.error.code]).toEqual([3, 'schema_too_new'])
  }
})
