import { PGlite } from '@electric-sql/pglite'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Connection, fromPg, fromPglite, fromPostgresJs, migrate } from '../../src/stores/postgres/index.js'
import { exerciseStore } from '../../src/testing/index.js'
import { commandLine } from '../cli/command-line.js'
import { keysOf } from '../cli/keys.js'
import { useDatabase } from '../support/postgres/database.js'
import { emptyHarness } from '../support/postgres/harness.js'
import { exerciseOperator } from './operator-cases.js'

const database = useDatabase()

type Settings = Readonly<Record<string, string>>

const impatient = 'little patience'
const [times, bytes, names, strict] = [
  'dates of another order, in another zone',
  'bytes and numbers in other words',
  'names that mean something else',
  'serializable transactions',
] as const

/** What users set for a role or a database. None of it may change what a statement of ours means. */
const sessions: Readonly<Record<string, Settings>> = {
  [times]: { DateStyle: 'SQL,DMY', TimeZone: 'Asia/Kolkata', IntervalStyle: 'sql_standard' },
  'a zone with summer time': { DateStyle: 'German', TimeZone: 'America/New_York', IntervalStyle: 'iso_8601' },
  [bytes]: { bytea_output: 'escape', extra_float_digits: '0', TimeZone: 'Australia/Sydney' },
  [names]: {
    search_path: 'hostile',
    standard_conforming_strings: 'off',
    quote_all_identifiers: 'on',
    transform_null_equals: 'on',
  },
  [strict]: { default_transaction_isolation: 'serializable', default_transaction_deferrable: 'on' },
  'repeatable reads': { default_transaction_isolation: 'repeatable read' },
  'other plans': {
    enable_seqscan: 'off',
    jit: 'on',
    jit_above_cost: '0',
    plan_cache_mode: 'force_generic_plan',
    synchronous_commit: 'off',
  },
  [impatient]: { lock_timeout: '1', statement_timeout: '20s', idle_in_transaction_session_timeout: '20s' },
}

/** Drivers agree on functions and tables of ours by name; so could a schema of the user's. */
const hostile = `
  create schema hostile;
  create function hostile.octet_length(bytea) returns integer language sql as 'select -1';
  create function hostile.clock_timestamp() returns timestamptz language sql as $$ select timestamptz 'epoch' $$;
  create function hostile.statement_timestamp() returns timestamptz language sql as $$ select timestamptz 'epoch' $$;
  create function hostile.date_part(text, timestamptz) returns float8 language sql as 'select 0::float8';
  create function hostile.substr(bytea, integer, integer) returns bytea language sql as $$ select ''::bytea $$;
  ${['keys', 'steps', 'jobs', 'audit', 'upkeep', 'migrations'].map((name) => `create table hostile.${name} (id integer);`).join('\n')}
  create table hostile.marks (mark text primary key);`

beforeAll(async () => void (await database.pool.query(hostile)))

const optionsOf = (settings: Settings) =>
  Object.entries(settings)
    .map(([name, value]) => `-c ${name}=${value.replaceAll(' ', '\\ ')}`)
    .join(' ')
const withPg = (settings: Settings) => fromPg(database.createPool({ max: 10, options: optionsOf(settings) }))

describe.each(Object.entries(sessions))('through pg, in sessions with %s', (name, settings) => {
  // Where many want one row, one that waits for a millisecond only is told that the store is not available, as its owner wants it.
  const some = (outcome: string, run: () => Promise<void>) => {
    if (name !== impatient || !/ at once|winner|same moment/.test(outcome)) test(outcome, run)
  }

  const connection = withPg(settings)
  exerciseStore({ test: some, setup: () => emptyHarness(connection) })
  exerciseOperator({ test, setup: () => emptyHarness(connection), connection })
})

/** All of it at once, for other drivers. */
const odd = { ...sessions[times], ...sessions[bytes], ...sessions[names] }

describe.each([
  ['odd', odd],
  ['strict', sessions[strict] as Settings],
] as const)('through postgres.js, in %s sessions', (_, settings) => {
  const sql = postgres(database.url, { max: 10, onnotice: () => {}, connection: settings as never })
  afterAll(() => sql.end())
  const connection = fromPostgresJs(sql)
  exerciseStore({ test, setup: () => emptyHarness(connection) })
  exerciseOperator({ test, setup: () => emptyHarness(connection), connection })
})

describe('through pg, in sessions that differ from each other', () => {
  const connection = inTurns(
    withPg({ DateStyle: 'SQL,DMY', TimeZone: 'Asia/Kolkata', bytea_output: 'escape' }),
    withPg({ DateStyle: 'SQL,MDY', TimeZone: 'UTC', extra_float_digits: '3' }),
  )
  exerciseStore({ test, setup: () => emptyHarness(connection) })
  exerciseOperator({ test, setup: () => emptyHarness(connection), connection })
})

describe('through PGlite, in an odd session', () => {
  let db: PGlite
  beforeAll(async () => {
    db = new PGlite()
    await migrate(fromPglite(db))
    await db.exec(hostile)
  })
  afterAll(() => db.close())

  const setup = async () => {
    for (const [name, value] of Object.entries(odd)) await db.query('select set_config($1, $2, false)', [name, value])
    return emptyHarness(fromPglite(db))
  }
  exerciseStore({ test, setup })
})

test('the command line shows the same in any session', async () => {
  const keys = keysOf(database, { audit: true })
  await keys.inDoubt()
  const url = new URL(database.url)
  url.searchParams.set('options', optionsOf(odd))
  // What time and the server's own statistics change between two calls.
  const changing = ['now', 'ageMs', 'says', 'deadRows', 'rows', 'tableBytes', 'indexBytes', 'bytes']
  const shown = async (address: string, ...words: string[]) => {
    const { data, exitCode } = await commandLine(address)(...words, '--json')
    return { exitCode, data: JSON.parse(JSON.stringify(data, (name, value) => (changing.includes(name) ? null : value))) }
  }
  for (const words of [['show', ...keys.name], ['list', '--state', 'parked'], ['status'], ['jobs']]) {
    expect(await shown(url.href, ...words)).toEqual(await shown(database.url, ...words))
  }
  expect((await shown(url.href, 'resolve', ...keys.name, '--did-not-happen', '--yes')).exitCode).toBe(0)
  expect((await keys.row()).state).toBe('pending')
})

/** Each statement goes to the other one of the two, as with a pooler whose sessions were changed by others. */
function inTurns<Tx>(one: Connection<Tx>, other: Connection<Tx>): Connection<Tx> {
  let turn = 0
  return {
    ...one,
    get sendsBinary() {
      return one.sendsBinary && other.sendsBinary
    },
    query(text, values, often) {
      turn += 1
      return (turn % 2 === 0 ? one : other).query(text, values, often)
    },
  }
}
