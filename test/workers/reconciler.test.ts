import { describe, expect, onTestFinished, test } from 'vitest'
import { createOnce } from '../../src/index.js'
import { type Difference, pagesByKey } from '../../src/reconcile/index.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { type ReconcileReport, type ReconcilerOptions, reconciler } from '../../src/workers/index.js'
import { startChild } from '../support/child.js'
import { codeOf } from '../support/code-of.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { setup } from './setup.js'

const database = useDatabase()

interface Item {
  readonly id: number
  readonly amount: number
}

const none = { rounds: 0, local: 0, foreign: 0, equal: 0, differs: 0, onlyLocal: 0, onlyForeign: 0, unsettled: 0 }
const items = (...ids: number[]): Item[] => ids.map((id) => ({ id, amount: 1 }))

/** A reconciler of a name of its own, unless told otherwise. */
function options(changes: Partial<ReconcilerOptions<Item, Item, number>> = {}): ReconcilerOptions<Item, Item, number> {
  return { name: crypto.randomUUID(), local: () => items(1, 2), foreign: () => items(2, 3), key: (item) => item.id, ...changes }
}

/** Warnings of this process while the test lasts. */
function warnings(): string[] {
  const seen: string[] = []
  const note = (warning: Error) => void seen.push(warning.message)
  process.on('warning', note)
  onTestFinished(() => void process.removeListener('warning', note))
  return seen
}

test('finds lost and doubtful charges in tables of any alphabet, and tells of each', async () => {
  const { once, events } = await setup(database)
  await database.pool.query(`
    create table orders (id text primary key, amount integer, changed_at timestamptz default clock_timestamp() - interval '1 hour');
    create table charges (id text primary key, amount integer, changed_at timestamptz default clock_timestamp() - interval '1 hour');
    insert into orders (id, amount) select letter || number, number from generate_series(1, 50) as number, unnest(array['a', 'Z', 'é', U&'\\E000', U&'\\+01F600']) as letter;
    insert into charges (id, amount) select id, amount from orders;
    update charges set amount = 0 where id = U&'\\+01F6007';
    delete from charges where id = 'a5';
    delete from orders where id = U&'\\E0009';
    insert into orders (id, amount, changed_at) values ('under way', 1, clock_timestamp() - interval '9 minutes'), ('lost', 1, clock_timestamp() - interval '11 minutes')`)
  const rows = (table: string) => () =>
    pagesByKey(
      async (after = '') => {
        const text = `select id, amount, changed_at from ${table} where id > $1 collate "C" order by id collate "C" limit 7`
        return (await database.pool.query<{ id: string; amount: number; changed_at: Date }>(text, [after])).rows
      },
      (row) => row.id,
    )
  const told: Difference<{ id: string }>[] = []
  const reports: ReconcileReport[] = []
  const service = reconciler(once, {
    name: 'charges',
    local: rows('orders'),
    foreign: rows('charges'),
    key: (row) => row.id,
    compare: { amount: (order, charge) => order.amount === charge.amount },
    changedAt: (row) => row.changed_at,
    onDifference: (difference) => told.push(difference),
    onReport: (report) => reports.push(report),
  })
  const found = { rounds: 1, local: 251, foreign: 249, equal: 247, differs: 1, onlyLocal: 2, onlyForeign: 1, unsettled: 1 }
  expect(await service.runOnce()).toEqual(found)
  expect(told.map(({ kind, key }) => [kind, key])).toEqual([
    ['only-local', 'a5'],
    ['only-local', 'lost'],
    ['only-foreign', '\ue0009'],
    ['differs', '😀7'],
  ])
  expect(events).toEqual([
    { type: 'differences-found', worker: 'reconciler:charges', counts: found },
    { type: 'worker-ran', worker: 'reconciler:charges', counts: found, durationMs: expect.any(Number) },
  ])
  const { rows: clock } = await database.pool.query('select extract(epoch from clock_timestamp())::float8 * 1000 as now')
  expect(reports).toMatchObject([{ name: 'charges', told: 4, summary: { complete: true, equal: 247 } }])
  expect(Math.abs(clock[0].now - (reports[0]?.startedAt as number))).toBeLessThan(60_000)
})

test('goes by the clock of the database for what is under way', async () => {
  const { once } = await setup(database, { clock: { ...farAhead() } })
  const seen: number[] = []
  const changedAt = (item: Item) => item.amount
  const service = reconciler(
    once,
    options({
      grace: '10m',
      changedAt,
      local: ({ now, settledBefore }) => {
        seen.push(now, settledBefore)
        return [
          { id: 1, amount: settledBefore },
          { id: 2, amount: settledBefore - 1 },
        ]
      },
      foreign: () => [],
    }),
  )
  expect(await service.runOnce()).toMatchObject({ onlyLocal: 1, unsettled: 1 })
  const [now = 0, settledBefore = 0] = seen
  expect(now - settledBefore).toBe(600_000)
  expect(Math.abs(Date.now() - now)).toBeLessThan(600_000)
})

test('tells nothing when both sides agree, but that it looked', async () => {
  const { once, eventsOf } = await setup(database)
  const reports: ReconcileReport[] = []
  const told: unknown[] = []
  const service = reconciler(
    once,
    options({
      foreign: () => items(1, 2),
      onReport: (report) => reports.push(report),
      onDifference: (difference) => told.push(difference),
    }),
  )
  expect(await service.runOnce()).toEqual({ ...none, rounds: 1, local: 2, foreign: 2, equal: 2 })
  expect([reports.length, told]).toEqual([1, []])
  expect(eventsOf('differences-found')).toEqual([])
})

test('goes on when a hook throws, at once or later', async () => {
  const seen = warnings()
  const { once } = await setup(database)
  const told: unknown[] = []
  const service = reconciler(
    once,
    options({
      onDifference({ kind }) {
        told.push(kind)
        if (kind === 'only-local') throw new Error('the pager is down')
        return Promise.reject(new Error('the mail is down'))
      },
      onReport: () => Promise.reject(new Error('the page is down')),
    }),
  )
  expect(await service.runOnce()).toMatchObject({ rounds: 1, onlyLocal: 1, onlyForeign: 1 })
  expect(told).toEqual(['only-local', 'only-foreign'])
  await waitUntil('all three are warned of', () => seen.length >= 3)
  expect(seen.map((text) => /\w+ is down/.exec(text)?.[0])).toEqual(['pager is down', 'mail is down', 'page is down'])
})

test('tells so many and counts all', async () => {
  const { once } = await setup(database)
  const told: number[] = []
  const reports: ReconcileReport[] = []
  const many = options({
    local: () => items(1, 2, 3, 4, 5),
    foreign: () => [],
    maxDifferences: 2,
    onDifference: ({ key }) => told.push(key),
    onReport: (report) => reports.push(report),
  })
  expect(await reconciler(once, many).runOnce()).toMatchObject({ onlyLocal: 5 })
  expect(told).toEqual([1, 2])
  expect(reports).toMatchObject([{ told: 2, summary: { onlyLocal: 5 } }])
})

test('raises no alarm from a stream that turns out to be unsorted', async () => {
  const { once, eventsOf } = await setup(database)
  const told: unknown[] = []
  const tell = (what: unknown) => told.push(what)
  const service = reconciler(once, options({ local: () => items(1, 2), foreign: () => items(2, 1), onDifference: tell, onReport: tell }))
  await expect(service.runOnce()).rejects.toMatchObject({ code: 'reconcile_unsorted' })
  service.start()
  await waitUntil('it is not tried again at once', () => eventsOf('worker-ran').length > 0)
  await service.stop()
  expect([told, eventsOf('differences-found')]).toEqual([[], []])
})

describe('turns', () => {
  test('are one at a time, of all processes', async () => {
    const { newOnce } = await setup(database)
    let readers = 0
    let others = 0
    const shared = options({
      async *local() {
        readers += 1
        await waitUntil('the others were turned away', () => others === 7)
        yield* items(1)
      },
    })
    const counts = await Promise.all(
      Array.from({ length: 8 }, async () => {
        const count = await reconciler(newOnce(), shared).runOnce()
        if (count.rounds === 0) others += 1
        return count.rounds
      }),
    )
    expect([readers, counts.filter((rounds) => rounds === 1).length]).toEqual([1, 1])
  })

  test('come once in their time, whoever has them, and others of another name are not kept', async () => {
    const { newOnce, eventsOf, advance } = await setup(database)
    const rounds: string[] = []
    // They look once in a turn. It is long enough for a busy machine: who is slower than that loses it, and another one does the round again.
    const turn = '1s'
    const shared = options({ every: '1h', turn, onReport: () => rounds.push('one') })
    const services = [shared, shared, options({ turn, onReport: () => rounds.push('other') })].map((each) => reconciler(newOnce(), each))
    for (const service of services) service.start()
    const looks = (atLeast: number) => waitUntil('all looked a few times', () => eventsOf('worker-ran').length >= atLeast)
    await looks(6)
    expect(rounds.toSorted()).toEqual(['one', 'other'])
    await advance(3_700_000)
    await waitUntil('the next hour has its round', () => rounds.length >= 4)
    await looks(eventsOf('worker-ran').length + 6)
    expect(rounds.toSorted()).toEqual(['one', 'one', 'other', 'other'])
    await Promise.all(services.map((service) => service.stop()))
  })

  test('are given back at once by a process that stops, and what it read is closed', async () => {
    const { newOnce } = await setup(database)
    const seen = { reads: 0, closed: 0 }
    const told: unknown[] = []
    const shared = options({
      turn: '10m',
      local: ({ signal }) => ({
        [Symbol.asyncIterator]: () => ({
          next() {
            seen.reads += 1
            return new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(new Error('cut off'))))
          },
        }),
      }),
      async *foreign() {
        try {
          yield* items(2, 3)
        } finally {
          seen.closed += 1
        }
      },
      onDifference: (difference) => told.push(difference),
      onReport: (report) => told.push(report),
    })
    const first = reconciler(newOnce(), shared)
    first.start()
    await waitUntil('it reads', () => seen.reads === 1)
    await first.stop()
    expect([seen.closed, told]).toEqual([1, []])
    const reports: unknown[] = []
    const next = reconciler(newOnce(), { ...shared, local: () => items(2, 3), onReport: (report) => reports.push(report) })
    next.start()
    await waitUntil('another does it', () => reports.length === 1)
    await next.stop()
  })

  test('end with maxRound, when a stream or a hook hangs', async () => {
    const { once } = await setup(database)
    const hangs = () => new Promise<never>(() => {})
    const stream = { [Symbol.asyncIterator]: () => ({ next: hangs }) }
    for (const change of [{ local: () => stream }, { onDifference: hangs }, { onReport: hangs }]) {
      await expect(reconciler(once, options({ maxRound: '50ms', ...change })).runOnce()).rejects.toMatchObject({ code: 'max_run_exceeded' })
    }
  })

  const settings = () => ({ url: database.url, turnMs: 2_000 })
  const turn = async () => {
    const { rows } = await database.pool.query(`select holder, held_until from oncekey.upkeep where name = 'reconcile:charges'`)
    return rows[0] as { holder: string; held_until: Date }
  }

  test('are renewed while a process lives, and go to another when it is killed', async () => {
    await setup(database)
    const first = startChild('workers/reconciler-process.ts', { ...settings(), hangs: true })
    expect(await first.message()).toBe('reads')
    const begun = await turn()
    const next = startChild('workers/reconciler-process.ts', { ...settings(), hangs: false })
    expect(await next.message()).toBe('no turn')
    const later = await waitUntil('the turn lasts longer', async () => {
      const now = await turn()
      return now.held_until > begun.held_until ? now : null
    })
    // Or it lapsed, and the other one has it.
    expect(later.holder).toBe(begun.holder)
    first.signal('SIGKILL')
    expect(await wordOf(next)).toBe('reads')
    expect(await next.message()).toBe('equal: 1')
  })

  test('of a process that was frozen are gone when it wakes up, and its round with it', async () => {
    await setup(database)
    await database.pool.query(`update oncekey.upkeep set frontier = '-infinity'`)
    const frozen = startChild('workers/reconciler-process.ts', { ...settings(), hangs: true })
    expect(await frozen.message()).toBe('reads')
    frozen.signal('SIGSTOP')
    const next = startChild('workers/reconciler-process.ts', { ...settings(), hangs: false })
    expect(await wordOf(next)).toBe('reads')
    expect(await next.message()).toBe('equal: 1')
    frozen.signal('SIGCONT')
    expect(await frozen.message()).toBe('turn_lost')
  })
})

test('works on a store in memory, and says so where there are no turns', async () => {
  const store = memoryStore()
  expect(await reconciler(createOnce({ store }), options()).runOnce()).toMatchObject({ rounds: 1, equal: 1 })
  const { turns: _, ...without } = store
  expect(codeOf(() => reconciler(createOnce({ store: without }), options()))).toBe('turns_unsupported')
})

test.each<[string, string, object]>([
  ['no name', 'option_invalid', { name: '' }],
  ['a name with spaces', 'option_invalid', { name: 'two words' }],
  ['a stream instead of a function', 'option_invalid', { local: [] }],
  ['no other side', 'option_invalid', { foreign: undefined }],
  ['no key', 'option_invalid', { key: undefined }],
  ['a comparison without a name', 'option_invalid', { compare: () => true }],
  ['a changedAt for one side', 'option_invalid', { changedAt: { local: () => 0 } }],
  ['a hook that is none', 'option_invalid', { onDifference: 'mail' }],
  ['no differences', 'option_invalid', { maxDifferences: 0 }],
  ['a duration that is none', 'duration_invalid', { every: 'often' }],
  ['a grace that is none', 'duration_invalid', { grace: 'some' }],
])('refuses %s at start', async (_, code, change) => {
  const { once } = await setup(database)
  expect(codeOf(() => reconciler(once, options(change)))).toBe(code)
})

test('takes no moment for one that is none', async () => {
  const { once } = await setup(database)
  for (const moment of [new Date('never'), Number.NaN, '2026-01-01' as never]) {
    await expect(reconciler(once, options({ changedAt: () => moment })).runOnce()).rejects.toMatchObject({ code: 'option_invalid' })
  }
})

/** The next word that is not about having no turn. */
async function wordOf(child: { message(): Promise<unknown> }): Promise<unknown> {
  for (;;) {
    const word = await child.message()
    if (word !== 'no turn') return word
  }
}

/** A process whose clock is a day ahead. */
function farAhead() {
  const clock = { now: () => Date.now() + 86_400_000, monotonic: () => performance.now() }
  const schedule = (task: () => void, delayMs: number) => {
    const timer = setTimeout(task, delayMs)
    return () => clearTimeout(timer)
  }
  return { ...clock, schedule }
}
