import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import { expect, onTestFinished, test, vi } from 'vitest'
import { isOncekeyError } from '../../src/core/errors.js'
import { createOnce, reply } from '../../src/index.js'
import { isPreparedStatementTrouble } from '../../src/stores/postgres/driver-errors.js'
import { fromPg, migrate, postgresOperator, postgresStore, type Queryable } from '../../src/stores/postgres/index.js'
import { aClaim } from '../../src/testing/store-cases/store-case.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'

const database = useDatabase()
const refused = { code: 'session_setting_unsupported', status: 500 }
const poolWith = (options: string) => database.createPool({ max: 2, options })

test.each([
  ['array_nulls', 'off', 'on'],
  ['extra_float_digits', '-1', '1'],
  ['extra_float_digits', '-15', '1'],
])('sessions with %s = %s are refused before anything is stored, with the command that sets it', async (name, value, right) => {
  const store = postgresStore(fromPg(poolWith(`-c ${name}=${value}`)))
  const claim = aClaim()
  const refusal = await store.keyClaim(claim).catch((error: unknown) => error)
  expect(isOncekeyError(refusal, 'session_setting_unsupported')).toBe(true)
  expect(String(refusal)).toContain(`The setting ${name} is ${value}`)
  expect(String(refusal)).toContain(`alter role current_user set ${name} = '${right}'`)
  const take = { token: crypto.randomUUID(), leaseMs: 1_000, limit: 1, names: null, heldByDead: false }
  await expect(store.outbox.jobsTake(take as never)).rejects.toMatchObject(refused)
  await expect(store.upkeep.keysSweep({ holder: crypto.randomUUID(), turnMs: 1_000, limit: 1 } as never)).rejects.toMatchObject(refused)
  expect((await database.pool.query('select from oncekey.keys where tenant = $1', [claim.tenant])).rowCount).toBe(0)
})

test.each([{}, { prepare: false }])('local work, and work within a transaction of yours, refuse them too: %o', async (options) => {
  const pool = poolWith('-c extra_float_digits=-15')
  const once = createOnce({ store: postgresStore(fromPg(pool, options)) })
  const [tenant, key] = [crypto.randomUUID(), 'k']
  const work = vi.fn(() => reply(201))
  await expect(once.local('local', {}, work).run({ tenant, key, input: {} })).rejects.toMatchObject(refused)
  const client = await pool.connect()
  await client.query('begin')
  for (let count = 0; count < 2; count += 1) {
    await expect(once.within(client, { tenant, scope: 's', key }, work)).rejects.toMatchObject(refused)
  }
  await client.query('commit')
  client.release()
  expect(work).not.toHaveBeenCalled()
  expect((await database.pool.query('select from oncekey.keys where tenant = $1', [tenant])).rowCount).toBe(0)
})

test('the session of a transaction of yours is checked, whatever the sessions of the store are like', async () => {
  const counted: string[] = []
  const connection = fromPg(database.pool)
  const within: typeof connection.within = (tx) => ({ ...connection.within(tx), ...counting(connection.within(tx), counted) })
  const once = createOnce({ store: postgresStore({ ...connection, within }) })
  const inbox = async (pool: pg.Pool, key: string) => {
    const client = await pool.connect()
    try {
      await client.query('begin')
      const { kind } = await once.within(client, { tenant: 't', scope: 's', key }, () => {})
      await client.query('commit')
      return kind
    } finally {
      client.release()
    }
  }
  await once.local('local', {}, () => reply(201)).run({ tenant: 't', key: 'k', input: {} })
  expect(counted.filter((text) => text.includes('array_nulls'))).toEqual([])
  const other = poolWith('-c array_nulls=off')
  await expect(inbox(other, 'refused')).rejects.toMatchObject(refused)
  const single = database.createPool({ max: 1 })
  counted.length = 0
  for (const key of ['1', '2', '3']) expect(await inbox(single, key)).toBe('executed')
  expect(counted.filter((text) => text.includes('array_nulls'))).toHaveLength(1)
})

test('local work, and work within a transaction of yours, refuse a schema that is too new', async () => {
  const schema = 'newer'
  const steps = await migrate(fromPg(database.pool), { schema })
  await database.pool.query(`insert into newer.migrations (version, name, breaking) values ($1, 'future', true)`, [steps.length + 1])
  const once = createOnce({ store: postgresStore(fromPg(database.pool), { schema }) })
  await expect(once.local('l', {}, () => reply(201)).run({ tenant: 't', key: 'k', input: {} })).rejects.toMatchObject({
    code: 'schema_too_new',
  })
  const client = await database.pool.connect()
  await client.query('begin')
  await expect(once.within(client, { tenant: 't', scope: 's', key: 'k' }, () => {})).rejects.toMatchObject({ code: 'schema_too_new' })
  await client.query('rollback')
  client.release()
})

test('a session whose texts are not UTF-8 is refused', async () => {
  const pool = database.createPool({ max: 1 })
  await pool.query(`set client_encoding = 'LATIN1'`)
  await expect(postgresStore(fromPg(pool)).keyClaim(aClaim())).rejects.toMatchObject(refused)
})

test('work does not run while a setting is refused, and runs without a restart when it was set right', async () => {
  const role = `service_${randomBytes(6).toString('hex')}`
  await database.pool.query(`create role ${role} login; alter role ${role} set array_nulls = off;
    grant usage on schema oncekey to ${role}; grant all on all tables in schema oncekey to ${role}`)
  onTestFinished(async () => {
    await pool.end()
    await database.pool.query(`drop owned by ${role}; drop role ${role}`)
  })
  const url = new URL(database.url)
  url.username = role
  const pool = database.createPool({ connectionString: url.href, max: 1 })
  const once = createOnce({ store: postgresStore(fromPg(pool)) })
  let runs = 0
  const execute = () =>
    once.execute({ tenant: 't', scope: 's', key: role, fingerprint: false, afterFailure: 'rerun' }, () => {
      runs += 1
      return reply(200)
    })
  await expect(execute()).rejects.toMatchObject(refused)
  await database.pool.query(`alter role ${role} set array_nulls = 'on'`)
  await database.pool.query('select pg_terminate_backend(pid) from pg_stat_activity where usename = $1', [role])
  await waitUntil('the pool has noticed', () => pool.totalCount === 0)
  expect((await execute()).kind).toBe('executed')
  expect(runs).toBe(1)
})

test('the settings are asked for once, and not with each request', async () => {
  const counted: string[] = []
  const store = postgresStore(counting(fromPg(database.pool, { prepare: false }), counted))
  await store.keyClaim(aClaim())
  const first = counted.splice(0)
  expect(first.filter((text) => text.includes('array_nulls'))).toHaveLength(1)
  for (let count = 0; count < 3; count += 1) await store.keyClaim(aClaim())
  expect(counted).toHaveLength(3)
})

test('operators are not refused, so that they can look for what is wrong', async () => {
  const operator = postgresOperator(fromPg(poolWith('-c array_nulls=off')))
  expect((await operator.settingsRead()).settings.array_nulls).toBe('off')
})

test('a database with UTF8 warns of nothing', async () => {
  const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
  await postgresStore(fromPg(database.pool)).keyClaim(aClaim())
  expect(warn).not.toHaveBeenCalled()
})

test('a stale plan is known as such in any language of the server', async () => {
  const pool = database.createPool({ max: 1 })
  await pool.query('create table changing (a integer)')
  const statement = { name: 'stale', text: 'select * from changing' }
  await pool.query(statement)
  await pool.query('alter table changing add column b integer')
  const error = await pool.query(statement).catch((thrown: pg.DatabaseError) => thrown)
  expect(error).toBeInstanceOf(Error)
  const german = Object.assign(error as Error, { message: 'gecachter Plan darf den Ergebnistyp nicht ändern' })
  expect(isPreparedStatementTrouble(german)).toBe(true)
})

test('the tables can be made in any session', async () => {
  const pool = poolWith('-c array_nulls=off -c DateStyle=SQL,DMY -c search_path=nowhere -c standard_conforming_strings=off')
  expect(await migrate(fromPg(pool), { schema: 'elsewhere' })).not.toEqual([])
})

function counting<Db extends Queryable>(connection: Db, texts: string[]): Db {
  return {
    ...connection,
    query(text, values, often) {
      texts.push(text)
      return connection.query(text, values, often)
    },
  }
}
