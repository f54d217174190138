import pg from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { serverChecks } from '../../src/cli/checks/server.js'
import { vacuumChecks } from '../../src/cli/checks/vacuum.js'
import { fromPg, migrate } from '../../src/stores/postgres/index.js'
import { migrations } from '../../src/stores/postgres/migrations/compiled.js'
import { expectedIndexes } from '../../src/stores/postgres/migrations/expected-indexes.js'
import { usePgbouncer } from '../support/pgbouncer.js'
import { useDatabase } from '../support/postgres/database.js'
import { startPostgres } from '../support/postgres/server.js'
import { commandLine } from './command-line.js'
import { about, type Check } from './doctor-checks.js'
import { keysOf } from './keys.js'

describe('a healthy server', () => {
  let server: Awaited<ReturnType<typeof startPostgres>>
  const flags = {
    idle_in_transaction_session_timeout: '60s',
    statement_timeout: '30s',
    client_connection_check_interval: '10s',
    tcp_user_timeout: '30s',
    tcp_keepalives_idle: 30,
    tcp_keepalives_interval: 10,
    tcp_keepalives_count: 3,
  }
  beforeAll(async () => {
    server = await startPostgres({ flags })
    expect((await commandLine(server.url)('migrate', '--yes')).exitCode).toBe(0)
  })
  afterAll(() => server.stop())

  test('passes every check', async () => {
    const { exitCode, data } = await commandLine(server.url)('doctor', '--strict', '--json')
    expect(data.checks.filter(({ level }: Check) => level !== 'ok')).toEqual([])
    expect([exitCode, data.healthy]).toEqual([0, true])
    expect(data.checks.map(({ name }: Check) => name)).toEqual([
      'server',
      'primary',
      'read only',
      'connections',
      'session settings',
      'encoding',
      'search_path',
      'fsync',
      'full_page_writes',
      'synchronous_commit',
      'idle transactions',
      'statement_timeout',
      'gone clients',
      'driver time-outs',
      'pooler',
      'clock',
      'schema',
      'indexes',
      'autovacuum',
      'backlog',
    ])
  })

  test('says so in words', async () => {
    const { out } = await commandLine(server.url)('doctor')
    expect(out).toMatch(/^ok +server +Postgres 1\d/)
    expect(out).toMatch(/\n\n0 failures, 0 warnings\.\n$/)
  })
})

describe('a sick server', () => {
  let server: Awaited<ReturnType<typeof startPostgres>>
  const clients: pg.Client[] = []
  beforeAll(async () => {
    const flags = {
      fsync: 'off',
      full_page_writes: 'off',
      synchronous_commit: 'off',
      autovacuum: 'off',
      default_transaction_read_only: 'on',
      max_connections: 12,
      lock_timeout: '50ms',
      array_nulls: 'off',
      extra_float_digits: -3,
      tcp_user_timeout: '10min',
    }
    server = await startPostgres({ flags })
    const options = { connectionString: server.url, options: '-c default_transaction_read_only=off' }
    const pool = new pg.Pool(options)
    await migrate(fromPg(pool))
    await pool.end()
    for (let count = 0; count < 8; count += 1) clients.push(new pg.Client(options))
    await Promise.all(clients.map((client) => client.connect()))
  })
  afterAll(async () => {
    await Promise.all(clients.map((client) => client.end()))
    await server.stop()
  })

  test('fails, and each finding says what to do', async () => {
    const { exitCode, data, out } = await commandLine(server.url)('doctor', '--json')
    expect([exitCode, data.healthy]).toEqual([5, false])
    const levels = data.checks.filter(({ level }: Check) => level !== 'ok').map(({ name, level }: Check) => `${level} ${name}`)
    expect(levels).toEqual([
      'fail read only',
      'warn connections',
      'fail session settings',
      'fail session settings',
      'fail fsync',
      'fail full_page_writes',
      'fail synchronous_commit',
      'warn idle transactions',
      'warn lock_timeout',
      'warn gone clients',
      'warn gone clients',
      'warn gone clients',
      'fail autovacuum',
    ])
    for (const { level, todo } of data.checks as Check[]) expect(todo !== null).toBe(level !== 'ok')
    expect(out).toContain('set fsync = on')
  })
})

describe('a schema', () => {
  const database = useDatabase()
  const connection = () => fromPg(database.pool)

  test('that is not there fails', async () => {
    expect((await commandLine(database.url)('doctor', '--schema', 'nowhere')).exitCode).toBe(5)
    expect(await about(database.url, 'schema', '--schema', 'nowhere')).toMatchObject([
      { level: 'fail', todo: expect.stringContaining('oncekey migrate') },
    ])
  })

  test('of an older release fails, and of a newer one that breaks this', async () => {
    await migrate(connection(), { schema: 'older' }, migrations.slice(0, 2))
    expect(await about(database.url, 'schema', '--schema', 'older')).toMatchObject([
      { level: 'fail', says: expect.stringContaining('background_work'), todo: 'oncekey migrate' },
    ])
    await migrate(connection(), { schema: 'newer' }, [
      ...migrations,
      { version: migrations.length + 1, name: 'next', breaking: true, sql: '' },
    ])
    expect(await about(database.url, 'schema', '--schema', 'newer')).toMatchObject([
      { level: 'fail', says: expect.stringContaining('breaks this older release') },
    ])
  })

  test('has exactly the indexes that are expected', async () => {
    const { rows } = await database.pool.query(`select indexname as name from pg_indexes where schemaname = 'oncekey' order by 1`)
    expect(
      expectedIndexes('oncekey')
        .map(({ name }) => name)
        .sort(),
    ).toEqual(rows.map(({ name }) => name))
  })

  test('that lacks an index fails, and is mended by what the doctor says', async () => {
    const schema = 'odd "name'
    await migrate(connection(), { schema })
    const made = expectedIndexes(schema).filter(({ repair }) => repair !== null)
    const definitions = async () =>
      (await database.pool.query('select indexdef from pg_indexes where schemaname = $1 order by indexname', [schema])).rows
    const before = await definitions()
    for (const { name } of made) await database.pool.query(`drop index "odd ""name".${name}`)
    const findings = await about(database.url, 'indexes', '--schema', schema)
    expect(findings.map(({ level }) => level)).toEqual(made.map(() => 'fail'))
    for (const { todo } of findings) await database.pool.query(todo as string)
    expect(await about(database.url, 'indexes', '--schema', schema)).toMatchObject([{ level: 'ok' }])
    expect(await definitions()).toEqual(before)
  })

  test('with an index that is not valid, or without a primary key, fails', async () => {
    const schema = 'broken'
    await migrate(connection(), { schema })
    await database.pool.query(`update pg_index set indisvalid = false where indexrelid = 'broken.keys_due_at'::regclass`)
    await database.pool.query('alter table broken.steps drop constraint steps_pkey')
    expect(await about(database.url, 'indexes', '--schema', schema)).toMatchObject([
      { level: 'fail', says: 'steps_pkey on steps is missing' },
      { level: 'fail', says: 'keys_due_at on keys is not valid', todo: expect.stringContaining('create index concurrently') },
    ])
  })

  test('with autovacuum off for a table fails', async () => {
    await migrate(connection(), { schema: 'untidy' })
    await database.pool.query('alter table untidy.keys set (autovacuum_enabled = off)')
    expect(await about(database.url, 'autovacuum', '--schema', 'untidy')).toMatchObject([{ level: 'fail', says: 'it is off for keys' }])
  })

  test('of which nobody removes the dead rows is a warning', async () => {
    const settings = { autovacuum: 'on', track_counts: 'on' }
    const table = { name: 'keys', rows: 10_000, deadRows: 20_000, tableBytes: 0, indexBytes: 0, autovacuum: true, indexes: [] }
    expect(vacuumChecks({ settings } as never, [table], 's')).toMatchObject([
      { level: 'warn', says: expect.stringContaining('20,000 dead rows') },
    ])
    expect(vacuumChecks({ settings } as never, [{ ...table, rows: 1_000_000 }], 's')).toMatchObject([{ level: 'ok' }])
  })
})

describe('what is left undone', () => {
  const database = useDatabase()

  test('is a warning each', async () => {
    const [held, parked, pending] = [keysOf(database), keysOf(database), keysOf(database)]
    await held.held()
    await parked.inDoubt()
    await pending.pending()
    await pending.pass(600_000)
    await database.pool.query(
      `insert into oncekey.jobs select 't', gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'mail', '{}', now() - interval '5 minutes'`,
    )
    const dead = `insert into oncekey.jobs (tenant, id, key_id, incarnation, name, payload, staged_at, dead_at)
      select 't', gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'mail', '{}', now(), now()`
    await database.pool.query(dead)
    for (const name of ['stuck', 'overdue', 'parked', 'outbox', 'dead letters']) {
      expect(await about(database.url, name)).toMatchObject([{ level: 'warn', todo: expect.any(String) }])
    }
    expect(await about(database.url, 'stuck', '--late', '1h')).toEqual([])
    expect(await about(database.url, 'backlog')).toEqual([])
  })
})

describe('the rest of the world', () => {
  const database = useDatabase()

  test.each([
    [5_000, 'ahead of'],
    [-5_000, 'behind'],
  ])('may have another time: %d ms', async (skew, word) => {
    const oncekey = commandLine(database.url, { now: () => Date.now() + skew })
    const { data } = await oncekey('doctor', '--json')
    const found = data.checks.find(({ name }: Check) => name === 'clock')
    expect(found.level).toBe('warn')
    expect(found.says).toMatch(new RegExp(`this machine is [45]\\.\\d s ${word} the database`))
  })

  test('may be away', async () => {
    const { exitCode, data } = await commandLine('postgres://nobody@127.0.0.1:1/none')('doctor', '--json')
    expect(exitCode).toBe(5)
    expect(data.checks).toMatchObject([{ name: 'reachable', level: 'fail' }])
  })

  test('may refuse the login, or be full: a finding each, and exit code 5', async () => {
    await database.pool.query('create role doctor_no_login nologin; create role doctor_crowd login connection limit 0')
    onTestFinished(async () => void (await database.pool.query('drop role doctor_no_login, doctor_crowd')))
    const as = async (user: string) => {
      const url = new URL(database.url)
      url.username = user
      const { exitCode, data } = await commandLine(url.href)('doctor', '--json')
      return [exitCode, data.checks]
    }
    const todo = expect.any(String)
    expect(await as('doctor_no_login')).toEqual([
      5,
      [{ name: 'access', level: 'fail', says: expect.stringMatching(/^The database refused the login: check user and password/), todo }],
    ])
    expect(await as('doctor_crowd')).toEqual([
      5,
      [{ name: 'reachable', level: 'fail', says: expect.stringMatching(/^The database has no connection left/), todo }],
    ])
  })

  test('may keep its tables from the user: the other findings stay', async () => {
    await database.pool.query(`create role doctor_stranger login; grant usage on schema oncekey to doctor_stranger`)
    const url = new URL(database.url)
    url.username = 'doctor_stranger'
    onTestFinished(async () => void (await database.pool.query('drop owned by doctor_stranger; drop role doctor_stranger')))
    const findings = async () => {
      const { exitCode, data } = await commandLine(url.href)('doctor', '--json')
      expect(exitCode).toBe(5)
      expect(data.checks).toEqual(expect.arrayContaining([expect.objectContaining({ name: 'server', level: 'ok' })]))
      return data.checks.filter(({ name }: Check) => name === 'schema' || name === 'access')
    }
    const access = { name: 'access', level: 'fail', says: expect.stringContaining('lacks a right'), todo: expect.stringContaining('grant') }
    expect(await findings()).toEqual([access])
    await database.pool.query('grant select on oncekey.migrations to doctor_stranger')
    expect(await findings()).toEqual([expect.objectContaining({ name: 'schema', level: 'ok' }), access])
  })

  test('may be a standby, or too old', () => {
    const settings = { max_connections: '100' }
    const facts = {
      version: '13.9',
      versionNumber: 130_009,
      database: 'd',
      user: 'u',
      inRecovery: true,
      connections: 1,
      byTcp: true,
      settings,
      overrides: [],
    }
    expect(serverChecks(facts).map(({ level }) => level)).toEqual(['fail', 'fail', 'ok', 'ok'])
  })
})

describe('a pooler', async () => {
  const database = useDatabase()
  const [session, transaction, statement] = await Promise.all(
    (['session', 'transaction', 'statement'] as const).map((mode) => usePgbouncer(database, mode)),
  )

  test('is told by its mode', async () => {
    expect(await about(database.url, 'pooler')).toMatchObject([{ level: 'ok', says: 'none, or one in session mode' }])
    expect(await about(session as string, 'pooler')).toMatchObject([{ level: 'ok', says: 'none, or one in session mode' }])
    expect(await about(transaction as string, 'pooler')).toMatchObject([{ level: 'ok', says: expect.stringContaining('transaction mode') }])
    expect(await about(statement as string, 'pooler')).toMatchObject([{ level: 'fail', todo: 'set pool_mode = transaction' }])
  })
})
