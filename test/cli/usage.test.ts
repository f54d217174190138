import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { connect } from '../../src/cli/connect.js'
import { useDatabase } from '../support/postgres/database.js'
import { commandLine } from './command-line.js'
import { keysOf } from './keys.js'

const database = useDatabase()

describe('the command line', () => {
  test.each([[['frobnicate']], [['list', '--colour']], [['reap', '--batch', '0']], [['list', '--older-than', 'yesterday']], [[]]])(
    'says what is wrong with %j, with exit code 2',
    async (words) => {
      const { exitCode, out, err } = await commandLine(database.url)(...words)
      expect([exitCode, out]).toEqual([2, ''])
      expect(err).not.toBe('')
    },
  )

  test('gives a script its document even then', async () => {
    const { exitCode, data } = await commandLine(database.url)('list', '--colour', '--json')
    expect([exitCode, data.error.exitCode]).toEqual([2, 2])
  })

  test('asks for a database if none is named, and takes the one of its option first', async () => {
    const { exitCode, err } = await commandLine(undefined)('list')
    expect([exitCode, err]).toEqual([2, 'No database given: set DATABASE_URL, or pass --database-url.\n'])
    expect((await commandLine('postgres://nobody@127.0.0.1:1/none')('list', '--database-url', database.url)).exitCode).toBe(0)
  })

  test('says that the database is away, with exit code 1', async () => {
    const { exitCode, data } = await commandLine('postgres://nobody@127.0.0.1:1/none')('list', '--json')
    expect([exitCode, data.error.code]).toEqual([1, 'store_unavailable'])
  })

  test('says that the tables are not there', async () => {
    const { exitCode, data } = await commandLine(database.url)('status', '--schema', 'elsewhere', '--json')
    expect([exitCode, data.error.code]).toEqual([1, 'schema_missing'])
  })

  test('colours only where there is a terminal', async () => {
    const words = ['doctor'] as const
    expect((await commandLine(database.url)(...words)).out).not.toContain('\x1b')
    expect((await commandLine(database.url, { colours: true })(...words)).out).toContain('\x1b[')
    expect((await commandLine(database.url, { colours: true })(...words, '--json')).out).not.toContain('\x1b')
  })

  test('shows help and version', async () => {
    expect(await commandLine(undefined)('--version')).toMatchObject({ exitCode: 0, out: expect.stringMatching(/^\d+\.\d+\.\d+/) })
    expect(await commandLine(undefined)('show', '--help')).toMatchObject({
      exitCode: 0,
      out: expect.stringContaining('Usage: oncekey show'),
    })
  })
})

test('needs the rights of the service', async () => {
  const guide = readFileSync(new URL('../../docs/guide/postgres.md', import.meta.url), 'utf8')
  const [, grants = ''] = /```sql\n(grant usage.*?)```/s.exec(guide) ?? []
  const role = `operator_${randomBytes(6).toString('hex')}`
  await database.pool.query(`create role ${role} login; ${grants.replaceAll('orders_app', role)}`)
  onTestFinished(async () => void (await database.pool.query(`drop owned by ${role}; drop role ${role}`)))
  const url = new URL(database.url)
  url.username = role
  const oncekey = commandLine(url.href)
  const [pending, held, stuck, inDoubt, done] = Array.from({ length: 5 }, () => keysOf(database))
  await pending?.pending()
  await held?.held()
  await inDoubt?.inDoubt()
  await done?.complete()
  await done?.pass(2 * 86_400_000)
  await database.pool.query(
    `insert into oncekey.jobs (tenant, id, key_id, incarnation, name, payload, staged_at, dead_at)
     select 't', gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), name, '{}', now(), now() from unnest(array['a', 'b']) as name`,
  )
  const codes = [
    await oncekey('show', ...(pending?.name ?? [])),
    await oncekey('list'),
    await oncekey('status'),
    await oncekey('retry', ...(pending?.name ?? []), '--yes'),
    await oncekey('release', ...(held?.name ?? []), '--yes'),
    await oncekey('resolve', ...(inDoubt?.name ?? []), '--happened', '--yes'),
    await oncekey('jobs'),
    await oncekey('jobs', 'retry', '--all', '--name', 'a', '--yes'),
    await oncekey('jobs', 'discard', '--all', '--name', 'b', '--yes'),
    await oncekey('reap', '--yes'),
  ].map(({ exitCode }) => exitCode)
  expect(codes).toEqual(codes.map(() => 0))
  expect((await database.pool.query('select name, dead_at from oncekey.jobs')).rows).toEqual([{ name: 'a', dead_at: null }])
  await stuck?.held()
  expect((await oncekey('sweep', '--yes', '--json')).data).toEqual({ pending: 1, failed: 0, parked: 0 })
  expect((await oncekey('migrate', '--check')).exitCode).toBe(0)
})

describe('the driver', () => {
  async function project(files: Record<string, string>) {
    const folder = await mkdtemp(join(tmpdir(), 'oncekey-driver-'))
    onTestFinished(() => rm(folder, { recursive: true, force: true }))
    for (const [path, text] of Object.entries(files)) {
      await mkdir(join(folder, path, '..'), { recursive: true })
      await writeFile(join(folder, path), text)
    }
    return folder
  }

  test("is the project's own", async () => {
    const folder = await project({ 'node_modules/pg/index.js': `throw new Error('the one of the project')` })
    await expect(connect(database.url, folder)).rejects.toThrow('the one of the project')
  })

  test('is the one beside oncekey where the project has none', async () => {
    const { connection, close } = await connect(database.url, await project({}))
    expect(await connection.query('select 1 as one', [])).toEqual([{ one: 1 }])
    await close()
  })

  test('may be postgres.js', async () => {
    const postgres = JSON.stringify(import.meta.resolve('postgres'))
    const folder = await project({
      'node_modules/postgres/package.json': '{ "type": "module", "exports": "./index.js" }',
      'node_modules/postgres/index.js': `export { default } from ${postgres}`,
    })
    const throughPostgresJs = commandLine(database.url, { connect: (url) => connect(url, folder, [join(folder, 'package.json')]) })
    expect(await throughPostgresJs('migrate', '--yes', '--schema', 'through_postgres_js')).toMatchObject({ exitCode: 0, err: '' })
    expect((await throughPostgresJs('doctor', '--json')).data.checks.length).toBeGreaterThan(10)
    expect((await throughPostgresJs('status', '--json')).exitCode).toBe(0)
    await database.pool.query(
      `insert into oncekey.jobs (tenant, id, key_id, incarnation, name, payload, staged_at, dead_at)
       select 't', gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'c', '{}', clock_timestamp() - interval '1 minute', clock_timestamp()`,
    )
    const { data } = await throughPostgresJs('jobs', '--state', 'dead', '--name', 'c', '--older-than', '10s', '--json')
    expect((await throughPostgresJs('jobs', 'show', data.jobs[0].id, '--json')).data.job).toMatchObject({ state: 'dead', name: 'c' })
    expect((await throughPostgresJs('jobs', 'discard', data.jobs[0].id, '--yes')).exitCode).toBe(0)
  })

  test('is asked for where there is none', async () => {
    const folder = await project({})
    await expect(connect(database.url, folder, [join(folder, 'package.json')])).rejects.toMatchObject({
      exitCode: 1,
      message: expect.stringContaining('npm install pg'),
    })
  })
})
