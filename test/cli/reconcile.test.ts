import { mkdtempSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import type { World } from '../../src/cli/world.js'
import { useDatabase } from '../support/postgres/database.js'
import { commandLine } from './command-line.js'

const database = useDatabase()
const oncekey = commandLine(database.url)
const folder = mkdtempSync(join(tmpdir(), 'oncekey-reconcile-'))
afterAll(() => rm(folder, { recursive: true }))

/** A file with these records, one on each line. Texts are lines as they are. */
function file(name: string, ...records: unknown[]): string {
  const path = join(folder, name)
  writeFileSync(path, records.map((record) => `${typeof record === 'string' ? record : JSON.stringify(record)}\n`).join(''))
  return path
}

const sides = (local: unknown[], foreign: unknown[]) => {
  const id = crypto.randomUUID()
  return ['reconcile', '--local', file(`${id}-local`, ...local), '--foreign', file(`${id}-foreign`, ...foreign)]
}

const orders = [
  { id: 'a', amount: 5, status: 'paid' },
  { id: 'b', amount: 7, status: 'paid' },
  { id: 'd', amount: 9, status: 'paid' },
]
const charges = [
  { id: 'b', amount: 8, status: 'paid' },
  { id: 'c', amount: 1, status: 'paid' },
  { id: 'd', amount: 9, status: 'paid' },
]

test('prints each difference on a line, then the counts, and says by its exit code that there are some', async () => {
  const { exitCode, out, err } = await oncekey(...sides(orders, charges), '--compare', 'amount,status')
  expect([exitCode, err]).toEqual([6, ''])
  expect(out).toBe(
    [
      'only-local    a  {"id":"a","amount":5,"status":"paid"}',
      'differs       b  amount: 7 here, 8 there',
      'only-foreign  c  {"id":"c","amount":1,"status":"paid"}',
      '1 equal, 1 different, 1 only here, 1 only there, 0 in progress.\n',
    ].join('\n'),
  )
})

test('is fine when both sides agree', async () => {
  expect(await oncekey(...sides(orders, orders), '--compare', 'amount,status')).toMatchObject({
    exitCode: 0,
    out: '3 equal, 0 different, 0 only here, 0 only there, 0 in progress.\n',
  })
  expect((await oncekey(...sides([], []), '--json')).data).toMatchObject({ differences: [], summary: { equal: 0, complete: true } })
})

test('compares nothing but what it is told to', async () => {
  expect((await oncekey(...sides(orders, charges))).out).toContain('2 equal, 0 different')
})

test('gives one JSON document', async () => {
  const { exitCode, data } = await oncekey(...sides(orders, charges), '--compare', 'amount', '--json')
  expect([exitCode, data]).toEqual([
    6,
    {
      differences: [
        { kind: 'only-local', key: 'a', local: orders[0] },
        { kind: 'differs', key: 'b', local: orders[1], foreign: charges[0], fields: ['amount'] },
        { kind: 'only-foreign', key: 'c', foreign: charges[1] },
      ],
      summary: { equal: 1, differs: 1, onlyLocal: 1, onlyForeign: 1, unsettled: 0, local: 3, foreign: 3, complete: true },
    },
  ])
})

test('finds fields that are called otherwise there, also inside of others, and values that are written otherwise', async () => {
  const ours = { order: 7, total: 1050, state: 'paid', note: null, lines: { tea: 1, milk: 2 } }
  const theirs = { metadata: { order_id: 7 }, amount: '1050', status: 'paid', lines: { milk: 2, tea: 1 } }
  const fields = ['--key', 'order=metadata.order_id', '--compare', 'total=amount, state=status, note, lines']
  const [noted, theirNoted] = [
    { ...ours, order: 8, note: 'gift' },
    { ...theirs, metadata: { order_id: 8 }, note: 'gift' },
  ]
  expect((await oncekey(...sides([ours, noted], [theirs, theirNoted]), ...fields)).exitCode).toBe(0)
  const { out } = await oncekey(...sides([ours, noted], [{ ...theirs, status: null, lines: {} }, theirNoted]), ...fields)
  expect(out).toContain('differs       7  state=status: "paid" here, null there; lines: {"tea":1,"milk":2} here, {} there\n')
})

test('compares two fields there with one here', async () => {
  const { out } = await oncekey(...sides([{ id: 1, amount: 5 }], [{ id: 1, gross: 5, net: 4 }]), '--compare', 'amount=gross,amount=net')
  expect(out).toContain('amount=net: 5 here, 4 there\n')
  expect(out).not.toContain('amount=gross')
})

test('takes a member that no record of a side has for a typing error, not for equal', async () => {
  const words = sides(orders, charges)
  const [local = '', foreign = ''] = [words[2], words[4]]
  for (const [field, side, name] of [
    ['amout', local, 'amout'],
    ['amount=amout', foreign, 'amout'],
    ['card.brand=amount', local, 'card.brand'],
    ['status,amount=amout', foreign, 'amout'],
  ] as const) {
    const { exitCode, err, out } = await oncekey(...words, '--compare', field)
    expect([exitCode, out.includes('equal')]).toEqual([2, false])
    expect(err).toContain(`No record of ${side} has a member '${name}'`)
  }
  const sql = ['reconcile', '--sql', "select 'b' as id, 8 as amount", '--foreign', foreign, '--compare', 'amout=amount', '--json']
  expect((await oncekey(...sql)).data.error).toMatchObject({
    exitCode: 2,
    message: expect.stringContaining("No record of --sql has a member 'amout'"),
  })
})

test('but one that some record has, or that is null, is there, and where nothing was compared nothing is said', async () => {
  const paid = [{ id: 'a' }, { id: 'b', refund: 5 }]
  expect((await oncekey(...sides(paid, paid), '--compare', 'refund')).exitCode).toBe(0)
  expect((await oncekey(...sides([...paid.slice(0, 1), { id: 'z', refund: 1 }], paid), '--compare', 'refund')).exitCode).toBe(6)
  expect((await oncekey(...sides([{ id: 'a', refund: null }], [{ id: 'a', refund: null }]), '--compare', 'refund')).exitCode).toBe(0)
  expect((await oncekey(...sides([], paid), '--compare', 'refund')).exitCode).toBe(6)
})

test('leaves out what is still under way, whichever way its time is written', async () => {
  const now = Date.UTC(2026, 0, 1, 12)
  const at = (minutes: number) => now - minutes * 60_000
  const iso = (minutes: number) => new Date(at(minutes)).toISOString()
  const local = [
    { id: 1, at: iso(9) },
    { id: 2, at: iso(11) },
    { id: 3, at: iso(9).replace('Z', '') },
    { id: 4, at: iso(11).replace('T', ' ').replace('Z', '+00') },
  ]
  const foreign = [
    { id: 5, created: at(9) / 1_000 },
    { id: 6, created: at(11) / 1_000 },
    { id: 7, created: at(9) },
    { id: 8, created: at(11) },
  ]
  const then = commandLine(undefined, { now: () => now })
  const keys = async (...words: string[]) => {
    const { data } = await then(...sides(local, foreign), '--time', 'at=created', '--json', ...words)
    return [data.summary.unsettled, data.differences.map(({ key }: { key: number }) => key)]
  }
  expect(await keys()).toEqual([4, [2, 4, 6, 8]])
  expect(await keys('--grace', '1m')).toEqual([0, [1, 2, 3, 4, 5, 6, 7, 8]])
  expect((await then(...sides([{ id: 1, at: 'soon' }], []), '--time', 'at')).exitCode).toBe(2)
})

describe('files', () => {
  test('that are not sorted are an error that says how to sort them, and what was printed is taken back', async () => {
    const { exitCode, out, err } = await oncekey(...sides([{ id: 'a' }, { id: 'b' }], [{ id: 'b' }, { id: 'a' }]))
    expect([exitCode, out]).toEqual([2, 'only-local    a  {"id":"a"}\n'])
    expect(err).toMatch(/^It stopped half-way.*\nThe foreign stream is not in order: "b" came before "a".*LC_ALL=C sort.*--sort/)
    const { data } = await oncekey(...sides([{ id: 'a' }, { id: 'b' }], [{ id: 'b' }, { id: 'a' }]), '--json')
    expect(data).toMatchObject({ differences: [{ key: 'a' }], error: { exitCode: 2, code: 'reconcile_unsorted' } })
    expect(data.summary).toBeUndefined()
  })

  test('are sorted by --sort, by bytes or by number', async () => {
    const texts = ['😀', 'a', '\ue000', 'Z', 'é'].map((id) => ({ id }))
    expect((await oncekey(...sides(texts, texts.toReversed()), '--sort')).out).toContain('5 equal, 0 different, 0 only here, 0 only there')
    const numbers = [10, 9, 100, 1].map((id) => ({ id }))
    const { out } = await oncekey(...sides(numbers, numbers.slice(1)), '--sort')
    expect(out).toBe('only-local    10  {"id":10}\n3 equal, 0 different, 1 only here, 0 only there, 0 in progress.\n')
  })

  test('hold one object on each line; empty lines, carriage returns and separators inside of texts are no lines', async () => {
    const odd = ['', '{"id":"a","note":"\u2028\u2029\u0085"}\r', '   ', '{"id":"b"}']
    expect((await oncekey(...sides(odd, [{ id: 'a', note: '\u2028\u2029\u0085' }, { id: 'b' }]), '--compare', 'note')).exitCode).toBe(0)
  })

  test.each([
    ['no JSON', '{"id":', 'line 2 of .* is not JSON'],
    ['no object', '[1]', 'line 2 of .* is not a JSON object'],
    ['no key', '{"ID":1}', 'line 2 of .* has no id'],
    ['a key that is no text and no number', '{"id":null}', 'line 2 of .* has no id'],
    ['a number that cannot be read exactly', '{"id":9007199254740993}', 'line 2 of .* too many digits'],
    ['a member twice', '{"id":2,"amount":1,"amount":2}', 'line 2 of .* a member twice'],
    ['a key that came already', '{"id":1}', 'the same key'],
    ['a text where the other is a number', '{"id":"2"}', 'a text and a number'],
  ])('are refused with %s, and the place is named', async (_, line, message) => {
    const { exitCode, err } = await oncekey(...sides(['{"id":1}', line], []))
    expect(exitCode).toBe(2)
    expect(err).toMatch(new RegExp(message))
  })

  test('that are not UTF-8, or not there, are refused', async () => {
    const path = join(folder, 'latin-1')
    writeFileSync(path, Buffer.from('{"id":"caf\xe9"}\n', 'latin1'))
    expect(await oncekey('reconcile', '--local', path, '--foreign', path)).toMatchObject({
      exitCode: 2,
      err: expect.stringContaining('not UTF-8'),
    })
    expect(await oncekey('reconcile', '--local', path, '--foreign', 'nowhere')).toMatchObject({ exitCode: 2 })
  })

  test('cannot move the cursor of whoever looks at them', async () => {
    const { out } = await oncekey(...sides([{ id: '\x1b[2J', note: '\u202e' }], []))
    expect(out).not.toMatch(/\x1b|\u202e/)
    const { out: json } = await oncekey(...sides([{ id: '\x1b[2J', note: '\u202e' }], []), '--json')
    expect(json).not.toMatch(/\x1b|\u202e/)
  })
})

describe('a query', () => {
  const against = (sql: string, foreign: unknown[]) => ['reconcile', '--sql', sql, '--foreign', file(crypto.randomUUID(), ...foreign)]

  test('is our side, sorted by itself, whatever the alphabet', async () => {
    await database.pool.query(`create table letters (id text, amount integer)`)
    const ids = Array.from({ length: 2_500 }, (_, number) => `${['a', 'Z', 'é', '\ue000', '😀'][number % 5]}${number}`)
    await database.pool.query('insert into letters select id, 1 from unnest($1::text[]) as id', [ids])
    const sorted = ids.toSorted((one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other))).map((id) => ({ id, amount: 1 }))
    const query = 'select id, amount from letters order by random(); -- any order'.replace('; --', ' --')
    expect((await oncekey(...against(query, sorted), '--compare', 'amount')).out).toMatch(/^2,500 equal, 0 different, 0 only here/)
    expect((await oncekey(...against('select * from letters;', sorted.slice(0, -1)))).exitCode).toBe(6)
  })

  test('sorts numbers as numbers', async () => {
    const numbers = Array.from({ length: 12 }, (_, index) => ({ id: index + 1 }))
    for (const type of ['integer', 'bigint', 'numeric']) {
      const query = `select n::${type} as id from generate_series(1, 12) as n order by n::text`
      expect((await oncekey(...against(query, numbers))).out).toMatch(/^12 equal/)
    }
  })

  test('cannot change anything, whatever is in it', async () => {
    await database.pool.query('create table precious (id integer)')
    await database.pool.query('create function spend() returns integer language sql as $$ insert into precious values (1) returning id $$')
    for (const query of [
      'select spend() as id',
      'select 1 as id) as row; commit; insert into precious values (2); --',
      'with gone as (insert into precious values (3) returning id) select id from gone',
    ]) {
      expect(await oncekey(...against(query, []))).toMatchObject({ exitCode: 2, err: expect.stringContaining('The query failed') })
    }
    expect((await database.pool.query('select * from precious')).rows).toEqual([])
  })

  test('goes by the clock of the database, and the key by a column', async () => {
    const wrong = commandLine(database.url, { now: () => 0 })
    const query = `select n as id, clock_timestamp() - (n - 0.5) * interval '1 minute' as at from generate_series(1, 20) as n`
    const { data } = await wrong(...against(query, []), '--time', 'at', '--json')
    expect(data.summary).toMatchObject({ unsettled: 10, onlyLocal: 10 })
    expect((await oncekey(...against(query, []), '--key', 'at.year')).exitCode).toBe(2)
    expect(await oncekey(...against(query, []), '--key', 'nothing')).toMatchObject({ exitCode: 2, err: expect.stringContaining('nothing') })
  })

  test('needs a database that is there', async () => {
    expect(await commandLine('postgres://localhost:1/none')(...against('select 1 as id', []))).toMatchObject({ exitCode: 1 })
    const stranger = new URL(database.url)
    stranger.username = 'reconcile_nowhere'
    expect(await commandLine(stranger.href)(...against('select 1 as id', []))).toMatchObject({
      exitCode: 1,
      err: expect.stringContaining('The database refused the login'),
    })
    expect(await commandLine(undefined)(...against('select 1 as id', []))).toMatchObject({ exitCode: 2 })
  })
})

test.each([
  ['no side of ours', ['--foreign', 'f']],
  ['two of them', ['--local', 'f', '--sql', 'select 1', '--foreign', 'f']],
  ['no other side', ['--local', 'f']],
  ['one input for both', ['--local', '-', '--foreign', '-']],
  ['a field without a name', ['--local', 'f', '--foreign', 'f', '--compare', 'a,,b']],
  ['a field with too many', ['--local', 'f', '--foreign', 'f', '--key', 'a=b=c']],
  ['a grace that is none', ['--local', 'f', '--foreign', 'f', '--grace', 'some']],
])('refuses %s', async (_, words) => {
  expect((await oncekey('reconcile', ...words)).exitCode).toBe(2)
})

describe('on a terminal', () => {
  const records = Array.from({ length: 10_000 }, (_, id) => ({ id }))

  /** Each look at the clock is a quarter of a second later. */
  function terminal(world: Partial<World> = {}) {
    let time = 0
    const screen: string[] = []
    const on = (text: string) => void screen.push(text)
    const now = () => (time += 250)
    return { screen, oncekey: commandLine(database.url, { progress: true, now, print: on, tell: on, ...world }) }
  }

  const bar = /^\r\x1b\[K\[#*-*\] +(\d+) % {2}[\d.]+ k?B\/s, [\d.]+ m?s left, 1 difference$/

  test.each([
    ['as they are', []],
    ['sorted', ['--sort']],
  ])('files have a bar, which is gone at the end: %s', async (_, words) => {
    const { screen, oncekey: seen } = terminal()
    expect((await seen(...sides(records, records.slice(1)), ...words)).exitCode).toBe(6)
    const drawn = screen.filter((text) => text.includes('%'))
    const percents = drawn.map((text) => Number(/(\d+) %/.exec(text)?.[1]))
    expect(drawn.length).toBeGreaterThan(1)
    expect(percents).toEqual(percents.toSorted((one, other) => one - other))
    expect(percents.at(-1)).toBeLessThanOrEqual(100)
    if (words.length === 0) expect(drawn.at(-1)).toMatch(bar)
    // What is sorted is gone through twice: half of it is done when the comparison begins.
    else expect([percents[drawn.findIndex((text) => text.endsWith(' 1 difference'))], percents.at(-1)]).toEqual([50, 100])
    expect(screen.slice(-2)).toEqual(['\r\x1b[K', expect.stringMatching(/^9,999 equal/)])
  })

  test('a difference is printed on a line of its own', async () => {
    const { screen, oncekey: seen } = terminal()
    await seen(...sides(records, records.slice(0, -1)))
    const at = screen.findIndex((text) => text.startsWith('only-local'))
    expect(screen[at - 1]).toBe('\r\x1b[K')
  })

  test('standard input and a query have a counter', async () => {
    const lines = async function* () {
      for (const record of records) yield Buffer.from(`${JSON.stringify(record)}\n`)
    }
    const piped = terminal({ read: lines, size: async () => undefined })
    await piped.oncekey('reconcile', '--local', '-', '--foreign', 'f')
    const asked = terminal()
    const query = 'select n as id from generate_series(0, 9999) as n'
    await asked.oncekey('reconcile', '--sql', query, '--foreign', sides([], records)[4] as string)
    for (const { screen } of [piped, asked]) {
      expect(screen).toContainEqual(expect.stringMatching(/^\r\x1b\[K[\d,]+ here, [\d,]+ there, 0 differences$/))
      expect(screen.join('')).not.toContain('%')
    }
  })

  test('is the only place where it is shown', async () => {
    const { err } = await commandLine(undefined, { now: () => Date.now() * 1_000 })(...sides(records, records))
    expect(err).toBe('')
  })
})
