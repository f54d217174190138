import fc from 'fast-check'
import { describe, expect, expectTypeOf, test } from 'vitest'
import { codeOf } from '../../test/support/code-of.js'
import type { ReconcileKey } from './key-order.js'
import { type Difference, type ReconcileOptions, type Reconciliation, reconcile } from './reconcile.js'

interface Item {
  readonly id: ReconcileKey
  readonly amount: number
}

const items = (...ids: ReconcileKey[]): Item[] => ids.map((id) => ({ id, amount: 1 }))
const byId = (item: Item) => item.id
const sameAmount = { amount: (local: Item, foreign: Item) => local.amount === foreign.amount }

async function all<L, F, K>(run: Reconciliation<L, F, K>): Promise<Difference<L, F, K>[]> {
  const found: Difference<L, F, K>[] = []
  for await (const difference of run) found.push(difference)
  return found
}

/** A stream that tells how much of it was read, and whether it was closed. */
function watched<T>(list: readonly T[], { failAt = -1 } = {}) {
  const seen = { read: 0, closed: 0 }
  async function* stream() {
    try {
      for (const [index, item] of list.entries()) {
        if (index === failAt) throw new Error('the stream broke')
        seen.read += 1
        yield item
      }
    } finally {
      seen.closed += 1
    }
  }
  return Object.assign(stream(), { seen })
}

const hanging = () => {
  const seen = { closed: 0 }
  return {
    seen,
    [Symbol.asyncIterator]: () => ({
      next: () => new Promise<never>(() => {}),
      async return() {
        seen.closed += 1
        return { done: true as const, value: undefined }
      },
    }),
  }
}

test('finds what only one side has and what differs, and counts the rest', async () => {
  const orders = [
    { order: 'a', total: 5, state: 'paid' },
    { order: 'b', total: 7, state: 'paid' },
    { order: 'd', total: 9, state: 'paid' },
  ]
  const charges = [
    { for: 'b', amount: 8, status: 'open' },
    { for: 'c', amount: 1, status: 'paid' },
    { for: 'd', amount: 9, status: 'paid' },
  ]
  const run = reconcile({
    local: orders,
    foreign: charges,
    key: { local: (order) => order.order, foreign: (charge) => charge.for },
    compare: {
      amount: (order, charge) => order.total === charge.amount,
      currency: () => true,
      status: (order, charge) => order.state === charge.status,
    },
  })
  expect(run.summary).toMatchObject({ local: 0, foreign: 0, complete: false })
  expect(await all(run)).toEqual([
    { kind: 'only-local', key: 'a', local: orders[0] },
    { kind: 'differs', key: 'b', local: orders[1], foreign: charges[0], fields: ['amount', 'status'] },
    { kind: 'only-foreign', key: 'c', foreign: charges[1] },
  ])
  expect(run.summary).toEqual({ local: 3, foreign: 3, equal: 1, differs: 1, onlyLocal: 1, onlyForeign: 1, unsettled: 0, complete: true })
})

test('knows the types of both sides and of the key', () => {
  const run = reconcile({
    local: [{ order: 'a', total: 5 }],
    foreign: [{ for: 'a', amount: 5n }],
    key: { local: (order) => order.order, foreign: (charge) => charge.for },
    compare: { amount: (order, charge) => BigInt(order.total) === charge.amount },
    settled: { local: (order) => order.total > 0, foreign: (charge) => charge.amount > 0n },
  })
  expectTypeOf(run).toEqualTypeOf<Reconciliation<{ order: string; total: number }, { for: string; amount: bigint }, string>>()
  const same = reconcile({ local: [{ id: 1 }], foreign: [{ id: 1, more: true }], key: (item) => item.id })
  expectTypeOf(same).toEqualTypeOf<Reconciliation<{ id: number }, { id: number; more: boolean }, number>>()
  // @ts-expect-error: a text here and a number there never meet.
  reconcile({ local: [{ id: 1 }], foreign: [{ id: 'a' }], key: { local: (item) => item.id, foreign: (item) => item.id } })
})

const empties: [string, Item[], Item[], string[]][] = [
  ['both sides are empty', [], [], []],
  ['there is nothing local', [], items(1, 2), ['only-foreign', 'only-foreign']],
  ['there is nothing foreign', items(1, 2), [], ['only-local', 'only-local']],
  ['one ends long before the other', items(1), items(1, 2, 3), ['only-foreign', 'only-foreign']],
]
test.each(empties)('is right when %s', async (_, local, foreign, kinds) => {
  const run = reconcile({ local, foreign, key: byId })
  expect((await all(run)).map(({ kind }) => kind)).toEqual(kinds)
  expect(run.summary.complete).toBe(true)
})

// What sorts differently in UTF-8 and in UTF-16 comes often.
const letters = fc.constantFrom('', 'a', 'B', '~', 'é', '\ud7ff', '\ue000', '\ufffd', '\uffff', '😀', '\u{10000}', '\u{10ffff}', '\0')
const texts = fc.oneof(
  fc.array(letters, { maxLength: 4 }).map((all) => all.join('')),
  fc.string({ unit: 'binary', maxLength: 5 }),
)
const numbers = fc.oneof(
  fc.integer({ min: -9, max: 9 }),
  fc.bigInt({ min: -9n, max: 9n }),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
)
const byBytes = (one: ReconcileKey, other: ReconcileKey) =>
  typeof one === 'string' && typeof other === 'string'
    ? Buffer.compare(Buffer.from(one), Buffer.from(other))
    : one < other
      ? -1
      : one > other
        ? 1
        : 0

describe.each([
  ['texts', texts, byBytes, undefined],
  ['numbers and bigints', numbers, byBytes, undefined],
  [
    'texts in the order of code units',
    texts,
    (one: ReconcileKey, other: ReconcileKey) => (one < other ? -1 : one > other ? 1 : 0),
    'code-units',
  ],
  [
    'texts, the last one first',
    texts,
    (one: ReconcileKey, other: ReconcileKey) => byBytes(other, one),
    (one: ReconcileKey, other: ReconcileKey) => byBytes(other, one),
  ],
] as const)('%s', (_, keys: fc.Arbitrary<ReconcileKey>, reference, order) => {
  const selector = (item: Item) => (typeof item.id === 'string' ? item.id : Number(item.id))
  const side = fc
    // Zero is one key, whatever its sign.
    .uniqueArray(fc.record({ id: keys, amount: fc.integer({ min: 0, max: 1 }) }), { selector, comparator: 'SameValueZero', maxLength: 12 })
    .map((list) => [...list].sort((one, other) => reference(one.id, other.id)))
  const options = { key: byId, compare: sameAmount, ...(order ? { order } : {}) } as Pick<
    ReconcileOptions<Item, Item, ReconcileKey>,
    'key' | 'compare' | 'order'
  >

  test('are reconciled as sets would be', async () => {
    await fc.assert(
      fc.asyncProperty(side, side, async (local, foreign) => {
        const run = reconcile({ local, foreign, ...options })
        const found = await all(run)
        const of = (list: Item[]) => new Map(list.map((item) => [selector(item), item]))
        const [ours, theirs] = [of(local), of(foreign)]
        const ids = (kind: string) => new Set(found.filter((each) => each.kind === kind).map(({ key }) => selector({ id: key, amount: 0 })))
        expect(ids('only-local')).toEqual(new Set([...ours.keys()].filter((id) => !theirs.has(id))))
        expect(ids('only-foreign')).toEqual(new Set([...theirs.keys()].filter((id) => !ours.has(id))))
        const both = [...ours.keys()].filter((id) => theirs.has(id))
        const other = both.filter((id) => ours.get(id)?.amount !== theirs.get(id)?.amount)
        expect(ids('differs')).toEqual(new Set(other))
        expect(run.summary).toMatchObject({
          complete: true,
          equal: both.length - other.length,
          local: local.length,
          foreign: foreign.length,
        })
        const { differs, onlyLocal, onlyForeign } = run.summary
        expect(differs + onlyLocal + onlyForeign).toBe(found.length)
      }),
      { numRuns: 150 },
    )
  })

  test('that are not in order, or come twice, are an error that names both, on whichever side', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(keys, { minLength: 2, maxLength: 8 }), fc.boolean(), side, async (ids, isLocal, other) => {
        const at = ids.findIndex((id, index) => index > 0 && reference(ids[index - 1] as ReconcileKey, id) >= 0)
        const list = ids.map((id) => ({ id, amount: 1 }))
        const run = reconcile({ ...(isLocal ? { local: list, foreign: other } : { local: other, foreign: list }), ...options })
        if (at === -1) return void (await all(run))
        const [before, after] = [ids[at - 1] as ReconcileKey, ids[at] as ReconcileKey]
        const error = await all(run).catch((caught) => caught)
        expect(error.code).toBe(reference(before, after) === 0 ? 'reconcile_key_repeated' : 'reconcile_unsorted')
        for (const id of [before, after]) expect(error.message).toContain(typeof id === 'string' ? JSON.stringify(id) : String(id))
        expect(error.message).toContain(isLocal ? 'The local stream' : 'The foreign stream')
        expect(run.summary.complete).toBe(false)
      }),
      { numRuns: 150 },
    )
  })
})

test('says how to sort, and how to read numbers that come as texts', async () => {
  const error = await all(reconcile({ local: items('9', '10'), foreign: [], key: byId })).catch((caught) => caught)
  expect(error).toMatchObject({
    code: 'reconcile_unsorted',
    message: expect.stringMatching(/"9" came before "10".*collate "C".*LC_ALL=C sort.*BigInt/),
  })
})

test.each([
  ['undefined', undefined],
  ['null', null],
  ['NaN', Number.NaN],
  ['Infinity', Number.POSITIVE_INFINITY],
  ['an object', {}],
])('takes no key that is %s', async (_, id) => {
  await expect(all(reconcile({ local: items(id as never), foreign: [], key: byId }))).rejects.toMatchObject({
    code: 'reconcile_key_invalid',
  })
})

test('takes no texts on one side and numbers on the other', async () => {
  await expect(all(reconcile({ local: items('1'), foreign: items(1), key: byId }))).rejects.toMatchObject({ code: 'reconcile_key_invalid' })
})

describe('what is still under way', () => {
  const settled = (item: Item) => item.amount !== 0
  const run = (local: [number, number][], foreign: [number, number][]) => {
    const side = (list: [number, number][]) => list.map(([id, amount]) => ({ id, amount }))
    return reconcile({ local: side(local), foreign: side(foreign), key: byId, compare: sameAmount, settled })
  }

  test.each<[string, [number, number][], [number, number][], object]>([
    ['only here', [[1, 0]], [], { unsettled: 1, onlyLocal: 0 }],
    ['only there', [], [[1, 0]], { unsettled: 1, onlyForeign: 0 }],
    ['different, and young here', [[1, 0]], [[1, 5]], { unsettled: 1, differs: 0 }],
    ['different, and young there', [[1, 5]], [[1, 0]], { unsettled: 1, differs: 0 }],
    ['equal', [[1, 0]], [[1, 0]], { unsettled: 0, equal: 1 }],
  ])('is no alarm, but counted, when it is %s', async (_, local, foreign, counts) => {
    const reconciliation = run(local, foreign)
    expect(await all(reconciliation)).toEqual([])
    expect(reconciliation.summary).toMatchObject({ ...counts, complete: true })
  })

  test('hides nothing that is settled', async () => {
    expect(
      (
        await all(
          run(
            [
              [1, 0],
              [2, 5],
            ],
            [[3, 5]],
          ),
        )
      ).map(({ key }) => key),
    ).toEqual([2, 3])
  })
})

describe('the streams', () => {
  test('are read one item at a time, and no further than they are asked for', async () => {
    const [local, foreign] = [watched(items(1, 2, 3, 4, 5, 6)), watched(items(1, 2, 4, 5, 6))]
    const iterator = reconcile({ local, foreign, key: byId })[Symbol.asyncIterator]()
    expect((await iterator.next()).value).toMatchObject({ key: 3 })
    expect([local.seen.read, foreign.seen.read]).toEqual([3, 3])
    expect((await iterator.next()).done).toBe(true)
    expect([local.seen, foreign.seen]).toEqual([
      { read: 6, closed: 1 },
      { read: 5, closed: 1 },
    ])
  })

  test('are closed when the reader leaves early', async () => {
    const [local, foreign] = [watched(items(1, 2, 3)), watched(items(4))]
    const run = reconcile({ local, foreign, key: byId })
    for await (const _ of run) break
    expect([local.seen.closed, foreign.seen.closed]).toEqual([1, 1])
    expect(run.summary).toMatchObject({ complete: false, onlyLocal: 1 })
  })

  test.each([
    ['breaks', () => ({ local: watched(items(1, 2, 3), { failAt: 1 }) }), 'the stream broke'],
    ['is unsorted', () => ({ local: watched(items(1, 3, 2)) }), 'not in order'],
    [
      'has an item that the key function cannot take',
      () => ({ key: (item: Item) => (item.id === 2 ? fail() : byId(item)) }),
      'no such item',
    ],
    ['has an item that the comparison cannot take', () => ({ compare: { amount: fail } }), 'no such item'],
  ])('are both closed when one of them %s', async (_, change, message) => {
    const options = { local: watched(items(1, 2, 3)), foreign: watched(items(1, 2, 3)), key: byId, ...change() }
    await expect(all(reconcile<Item, Item, ReconcileKey>(options))).rejects.toThrow(message)
    expect([options.local.seen.closed, options.foreign.seen.closed]).toEqual([1, 1])
  })

  test('are both told when the other one hangs, and it is not waited for', async () => {
    const foreign = hanging()
    await expect(all(reconcile<Item, Item, ReconcileKey>({ local: watched(items(1), { failAt: 0 }), foreign, key: byId }))).rejects.toThrow(
      'the stream broke',
    )
    expect(foreign.seen.closed).toBe(1)
  })

  test('end with the signal, also while both hang', async () => {
    const [local, foreign, stop] = [hanging(), hanging(), new AbortController()]
    const ending = all(reconcile<Item, Item, ReconcileKey>({ local, foreign, key: byId, signal: stop.signal }))
    stop.abort(new Error('enough'))
    await expect(ending).rejects.toThrow('enough')
    expect([local.seen.closed, foreign.seen.closed]).toEqual([1, 1])
  })

  test('end with the signal, also while they never make anybody wait', async () => {
    const stop = new AbortController()
    const local = watched(Array.from({ length: 10_000 }, (_, id) => ({ id, amount: 1 })))
    const run = reconcile({ local, foreign: watched<Item>([]), key: byId, signal: stop.signal })
    await expect(
      (async () => {
        for await (const { key } of run) if (key === 5) stop.abort(new Error('enough'))
      })(),
    ).rejects.toThrow('enough')
    expect(local.seen).toEqual({ read: 6, closed: 1 })
  })

  test('are not even opened after the signal', async () => {
    const local = watched(items(1))
    const run = reconcile({ local, foreign: [], key: byId, signal: AbortSignal.abort(new Error('too late')) })
    await expect(all(run)).rejects.toThrow('too late')
    expect(local.seen.read).toBe(0)
  })

  test('keep nothing on a signal that lives on', async () => {
    const { signal } = new AbortController()
    let listeners = 0
    const counting = new Proxy(signal, {
      get(target, name) {
        if (name === 'addEventListener') listeners += 1
        if (name === 'removeEventListener') listeners -= 1
        const value = Reflect.get(target, name) as unknown
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
    await all(reconcile({ local: items(1, 2, 3), foreign: items(2), key: byId, signal: counting }))
    expect(listeners).toBe(0)
  })
})

test('can be read once: a second time would look like good news', async () => {
  const run = reconcile({ local: items(1), foreign: [], key: byId })
  await all(run)
  await expect(all(run)).rejects.toMatchObject({ code: 'option_invalid' })
})

test('takes no promise for a yes', async () => {
  const isAsync = (async () => false) as never
  const pair = { local: items(1), foreign: items(1), key: byId }
  await expect(all(reconcile({ ...pair, compare: { amount: isAsync } }))).rejects.toMatchObject({ code: 'option_invalid' })
  await expect(all(reconcile({ ...pair, foreign: [], settled: isAsync }))).rejects.toMatchObject({ code: 'option_invalid' })
  await expect(all(reconcile({ ...pair, order: isAsync }))).rejects.toMatchObject({ code: 'option_invalid' })
})

test.each<[string, object]>([
  ['a stream that is none', { local: 7 }],
  ['no other side', { foreign: undefined }],
  ['no key', { key: undefined }],
  ['a key for one side', { key: { local: byId } }],
  ['a comparison that is no function', { compare: { amount: 'amount' } }],
  ['no comparisons', { compare: null }],
  ['one comparison without a name', { compare: () => true }],
  ['an order that there is not', { order: 'alphabet' }],
  ['settled that is no function', { settled: true }],
])('refuses %s at once', (_, change) => {
  expect(codeOf(() => reconcile({ local: [], foreign: [], key: byId, ...change } as never))).toBe('option_invalid')
})

function fail(): never {
  throw new Error('no such item')
}
