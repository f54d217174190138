// What the doctor says of settings that differ by role and database.
import { randomBytes } from 'node:crypto'
import { describe, expect, onTestFinished, test } from 'vitest'
import { useDatabase } from '../support/postgres/database.js'
import { databaseName, onServer } from '../support/postgres/template.js'
import { about } from './doctor-checks.js'

describe('settings of a role', () => {
  const database = useDatabase()

  async function role(settings: string) {
    const name = `service_${randomBytes(6).toString('hex')}`
    await database.pool.query(`create role ${name} login; alter role ${name} ${settings}; grant usage on schema oncekey to ${name};
      grant select on all tables in schema oncekey to ${name}`)
    onTestFinished(async () => void (await database.pool.query(`drop owned by ${name}; drop role ${name}`)))
    const url = new URL(database.url)
    url.username = name
    return { name, url: url.href }
  }

  test('fail for the role itself', async () => {
    const { url } = await role('set synchronous_commit = off')
    expect(await about(url, 'synchronous_commit')).toMatchObject([{ level: 'fail', todo: expect.stringContaining('set it to on') }])
  })

  test('are a warning for others', async () => {
    const { name } = await role('set synchronous_commit = off')
    const findings = await about(database.url, 'synchronous_commit')
    expect(findings).toContainEqual(expect.objectContaining({ level: 'warn', says: `it is off for role ${name} on this database` }))
  })

  test('that change what statements mean fail for the role itself, and are a warning for others', async () => {
    const { name, url } = await role('set array_nulls = off')
    const [mine] = await about(url, 'session settings')
    expect(mine).toMatchObject({ level: 'fail', says: expect.stringContaining('array_nulls is off') })
    const warning = { level: 'warn', todo: `if a service runs as it: alter role ${name} reset array_nulls` }
    expect(await about(database.url, 'session settings')).toContainEqual(expect.objectContaining(warning))
    // What it says to do is right.
    await database.pool.query((mine?.todo ?? '').replace(/;.*/, ''))
    expect(await about(url, 'session settings')).toMatchObject([{ level: 'ok' }])
  })

  test('of other times, dates and bytes are fine', async () => {
    const { name, url } = await role(`set bytea_output = 'escape'`)
    await database.pool.query(`alter role ${name} set DateStyle = 'SQL, DMY'; alter role ${name} set extra_float_digits = 0`)
    expect(await about(url, 'session settings')).toMatchObject([{ level: 'ok' }])
  })

  test('that put other schemas before pg_catalog are a warning', async () => {
    const { url } = await role('set search_path = public, pg_catalog')
    expect(await about(url, 'search_path')).toMatchObject([{ level: 'warn', todo: expect.stringContaining('set search_path = public') }])
  })

  test('may make it read-only', async () => {
    const { url } = await role('set default_transaction_read_only = on')
    expect(await about(url, 'read only')).toMatchObject([{ level: 'fail' }])
  })
})

describe('a database whose encoding is not UTF8', () => {
  const database = useDatabase()

  test('is a warning that says what may fail', async () => {
    const name = databaseName('test')
    await onServer(database.url, `create database ${name} template template0 encoding 'LATIN1' locale 'C'`)
    onTestFinished(() => onServer(database.url, `drop database ${name} with (force)`))
    const url = new URL(database.url)
    url.pathname = `/${name}`
    expect(await about(url.href, 'encoding')).toMatchObject([{ level: 'warn', says: expect.stringContaining('characters of LATIN1') }])
    expect(await about(database.url, 'encoding')).toMatchObject([{ level: 'ok' }])
  })
})
