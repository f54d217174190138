import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { waitUntil } from '../../../../test/support/wait-until.js'
import { arrayLiteral } from './array-literal.js'
import { askAlone, Batcher, type BatcherParts } from './batcher.js'

interface Item {
  readonly id: string
  readonly number: number
}

/** What these tests have no use for. */
const untouched = {
  db: { query: async () => [] },
  traffic: { statements: 0 },
  maxBytes: 1_000,
  bytesOf: () => 0,
}

/** Statements that end when the test says so. */
function setup(changes: Partial<BatcherParts<Item, string>> = {}) {
  const sent: { items: Item[]; answer(results?: (string | typeof askAlone)[]): void; fail(error: Error): void }[] = []
  const send = (items: readonly Item[]) =>
    new Promise<readonly (string | typeof askAlone)[]>((resolve, reject) => {
      const results = items.map(({ id, number }) => `${id}:${number}`)
      sent.push({ items: [...items], answer: (given = results) => resolve(given), fail: reject })
    })
  const batcher = new Batcher<Item, string>({
    ...untouched,
    maxRows: 4,
    maxInFlight: 1,
    slowMs: 600_000,
    idOf: ({ id }) => id,
    one: async (_, item) => (await send([item]))[0] as string,
    many: (_, items) => send(items),
    isOfOne: (error) => (error as Error).message === 'one of them',
    ...(changes as object),
  } as BatcherParts<Item, string>)
  const turn = () => new Promise(setImmediate)
  const submit = (...ids: string[]) => ids.map((id, number) => batcher.submit({ id, number }, Number.POSITIVE_INFINITY))
  const idsOf = () => sent.map(({ items }) => items.map(({ id }) => id).join(''))
  return { batcher, sent, turn, submit, idsOf }
}

test('sends one alone at once, and those that come meanwhile together', async () => {
  const { sent, turn, submit, idsOf } = setup()
  const [first] = submit('a')
  await turn()
  const rest = submit('b', 'c')
  await turn()
  expect(idsOf()).toEqual(['a'])
  sent[0]?.answer()
  expect(await first).toBe('a:0')
  await turn()
  await turn()
  expect(idsOf()).toEqual(['a', 'bc'])
  sent[1]?.answer()
  expect(await Promise.all(rest)).toEqual(['b:0', 'c:1'])
})

test('puts what one turn of the event loop brings into one statement', async () => {
  const { sent, turn, submit, idsOf } = setup()
  const all = submit('a', 'b', 'c')
  await turn()
  expect(idsOf()).toEqual(['abc'])
  sent[0]?.answer()
  await Promise.all(all)
})

test('has no more rows in a statement, and no more statements under way, than it may; in the order in which they came', async () => {
  const { turn, submit, idsOf, sent } = setup({ maxInFlight: 2 })
  const all = submit(...'abcdefghij')
  await turn()
  expect(idsOf()).toEqual(['abcd', 'efgh'])
  sent[1]?.answer()
  await turn()
  await turn()
  expect(idsOf()).toEqual(['abcd', 'efgh', 'ij'])
  for (const each of sent) each.answer()
  await Promise.all(all)
})

test('divides what waits among its places while nothing is under way, so that they take turns, but not into small statements', async () => {
  const traffic = { statements: 0 }
  const many = (count: number) => Array.from({ length: count }, (_, number) => `${number}`)
  const sizes = () => sent.map(({ items }) => items.length)
  const { turn, submit, sent } = setup({ traffic, maxRows: 128, maxInFlight: 2 })
  const first = submit(...many(100))
  await turn()
  expect(sizes()).toEqual([50, 50])
  expect(traffic.statements).toBe(2)
  for (const each of sent.splice(0)) each.answer()
  await Promise.all(first)
  await waitUntil('nothing is under way', () => traffic.statements === 0)

  const few = submit(...many(63))
  await turn()
  expect(sizes()).toEqual([63])
  for (const each of sent.splice(0)) each.answer()
  await Promise.all(few)
  await waitUntil('nothing is under way', () => traffic.statements === 0)

  traffic.statements = 1
  const beside = submit(...many(100))
  await turn()
  expect(sizes()).toEqual([100])
  for (const each of sent) each.answer()
  await Promise.all(beside)
})

test.each([
  [3, 100, [34, 34, 32]],
  [4, 128, [32, 32, 32, 32]],
  [8, 130, [33, 33, 33, 31]],
])('with %i places, %i that wait are %j', async (maxInFlight, waiting, sizes) => {
  const { turn, submit, sent } = setup({ maxRows: 128, maxInFlight })
  const all = submit(...Array.from({ length: waiting }, (_, number) => `${number}`))
  await turn()
  expect(sent.map(({ items }) => items.length)).toEqual(sizes)
  for (const each of sent) each.answer()
  await Promise.all(all)
})

test('never asks about the same id twice in one statement', async () => {
  const { turn, submit, idsOf, sent } = setup()
  const all = submit('a', 'b', 'a', 'a', 'c')
  await turn()
  expect(idsOf()).toEqual(['abc'])
  sent[0]?.answer()
  await turn()
  await turn()
  expect(idsOf()).toEqual(['abc', 'a'])
  sent[1]?.answer()
  await turn()
  await turn()
  sent[2]?.answer()
  expect(await Promise.all(all)).toEqual(['a:0', 'b:1', 'a:2', 'a:3', 'c:4'])
})

test('lets those of the same id share one row and its answer, where that is right', async () => {
  const { turn, submit, idsOf, sent } = setup({ shared: (result) => `${result}, shared` })
  const all = submit('a', 'b', 'a', 'a')
  await turn()
  expect(idsOf()).toEqual(['ab'])
  sent[0]?.answer()
  expect(await Promise.all(all)).toEqual(['a:0', 'b:1', 'a:0, shared', 'a:0, shared'])
})

test('gives an error that all of an id would get to all of them at once', async () => {
  const { sent, turn, submit } = setup({ shared: (result) => result, sharesError: (error) => (error as Error).message === 'locked' })
  const all = Promise.allSettled(submit('a', 'a', 'a'))
  await turn()
  sent[0]?.fail(new Error('locked'))
  expect((await all).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
  await turn()
  expect(sent).toHaveLength(1)
})

test('asks again for those that shared a row which failed', async () => {
  const { turn, submit, idsOf, sent } = setup({ shared: (result) => `${result}, shared` })
  const all = Promise.allSettled(submit('a', 'a', 'a'))
  await turn()
  sent[0]?.fail(new Error('reset'))
  await turn()
  await turn()
  expect(idsOf()).toEqual(['a', 'a'])
  sent[1]?.answer()
  expect(await all).toMatchObject([{ reason: { message: 'reset' } }, { value: 'a:1' }, { value: 'a:1, shared' }])
})

test('asks alone about those that were left out, and does not let the next batch wait for them', async () => {
  const { turn, submit, idsOf, sent } = setup()
  const all = submit('a', 'b')
  await turn()
  const [next] = submit('c')
  sent[0]?.answer(['a:0', askAlone])
  await turn()
  await turn()
  expect(idsOf()).toEqual(['ab', 'b', 'c'])
  sent[2]?.answer()
  expect(await next).toBe('c:0')
  sent[1]?.answer(['b:1'])
  expect(await Promise.all(all)).toEqual(['a:0', 'b:1'])
})

test('asks alone about each when one of them may be at fault, and gives each its own end', async () => {
  const { turn, submit, idsOf, sent } = setup()
  const all = Promise.allSettled(submit('a', 'b'))
  await turn()
  sent[0]?.fail(new Error('one of them'))
  await turn()
  expect(idsOf()).toEqual(['ab', 'a', 'b'])
  sent[1]?.fail(new Error('it was a'))
  sent[2]?.answer()
  expect(await all).toMatchObject([{ reason: { message: 'it was a' } }, { value: 'b:1' }])
})

test('does not stand behind a statement that takes too long, nor behind those that are asked for alone', async () => {
  const { submit, idsOf, sent, turn } = setup({ slowMs: 1 })
  const [slow] = submit('a')
  await turn()
  const [next] = submit('b')
  await waitUntil('the next one is sent', () => idsOf().includes('b'))
  sent[1]?.answer()
  expect(await next).toBe('b:0')
  sent[0]?.answer()
  expect(await slow).toBe('a:0')

  const { submit: ask, idsOf: asked, sent: statements, turn: tick } = setup()
  const pair = ask('c', 'd')
  await tick()
  statements[0]?.fail(new Error('one of them'))
  const [other] = ask('e')
  await waitUntil('it is sent beside them', () => asked().includes('e'))
  for (const statement of statements.slice(1)) statement.answer()
  expect(await Promise.all([...pair, other])).toEqual(['c:0', 'd:1', 'e:0'])
})

test('gives all the error of a statement that did not get through, and goes on', async () => {
  const { turn, submit, sent } = setup()
  const all = Promise.allSettled(submit('a', 'b'))
  await turn()
  sent[0]?.fail(new Error('the connection broke'))
  expect(await all).toMatchObject([{ reason: { message: 'the connection broke' } }, { reason: { message: 'the connection broke' } }])
  const [next] = submit('c')
  await waitUntil('the next one is sent', () => sent.length === 2)
  sent[1]?.answer()
  expect(await next).toBe('c:0')
})

test('answers everybody, with their own answer, whatever comes and goes', async () => {
  const outcomes = fc.constantFrom('answered', 'left out', 'one at fault')
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.constantFrom(...'abcdef'), { maxLength: 40 }),
      fc.array(outcomes, { minLength: 1 }),
      fc.integer({ min: 1, max: 5 }),
      fc.integer({ min: 1, max: 3 }),
      async (ids, ends, maxRows, maxInFlight) => {
        let statements = 0
        const batcher = new Batcher<Item, string>({
          ...untouched,
          maxRows,
          maxInFlight,
          slowMs: 600_000,
          idOf: ({ id }) => id,
          one: async (_, { id, number }) => `${id}:${number}`,
          async many(_, items) {
            expect(items.length).toBeLessThanOrEqual(maxRows)
            expect(new Set(items.map(({ id }) => id)).size).toBe(items.length)
            const end = ends[statements++ % ends.length]
            await new Promise(setImmediate)
            if (end === 'one at fault') throw new Error('one of them')
            return items.map(({ id, number }, index) => (end === 'left out' && index % 2 === 0 ? askAlone : `${id}:${number}`))
          },
          isOfOne: () => true,
        })
        const answers = await Promise.all(ids.map((id, number) => batcher.submit({ id, number }, Number.POSITIVE_INFINITY)))
        expect(answers).toEqual(ids.map((id, number) => `${id}:${number}`))
      },
    ),
    { numRuns: 50 },
  )
})

describe('arrayLiteral', () => {
  test.each([
    [[], '{}'],
    [['a', 'b-c', '1.5'], '{a,b-c,1.5}'],
    [[1, -2.5, null], '{1,-2.5,NULL}'],
    [['', 'NULL', 'null', 'a,b', '{}', ' '], '{"","NULL","null","a,b","{}"," "}'],
    [['"', '\\', '\\"'], '{"\\"","\\\\","\\\\\\""}'],
    [['a', 'a', null, null, 'null', 'a'], '{a,a,NULL,NULL,"null",a}'],
  ])('%j', (values, literal) => {
    expect(arrayLiteral(values)).toBe(literal)
  })
})

describe('a place in the queue', () => {
  test('ends with the caller who has it, and what was given up is never sent', async () => {
    const { batcher, sent, turn, idsOf, submit } = setup()
    submit('a')
    await turn()
    const until = performance.now() + 1
    const late = batcher.submit({ id: 'b', number: 0 }, until)
    submit('c')
    await waitUntil('its caller has gone', () => performance.now() > until)
    sent[0]?.answer()
    await expect(late).rejects.toMatchObject({ code: 'store_timeout', neverSent: true })
    await waitUntil('c is sent', () => idsOf().includes('c'))
    expect(idsOf()).toEqual(['a', 'c'])
  })

  test('ends while the statements before it hang', async () => {
    const { batcher, turn, idsOf, submit } = setup({ slowMs: 20 })
    submit('a')
    await turn()
    // The statement before it does not count any more after 20 ms, and this one's caller has gone by then.
    const late = batcher.submit({ id: 'b', number: 0 }, performance.now() + 1)
    await expect(late).rejects.toMatchObject({ code: 'store_timeout', neverSent: true })
    expect(idsOf()).toEqual(['a'])
  })
})

test('a statement has no more bytes than fit, and one that is too large goes alone', async () => {
  const { sent, turn, submit, idsOf } = setup({ bytesOf: ({ id }) => (id === 'x' ? 5_000 : 400), maxRows: 100 })
  submit('a')
  await turn()
  const rest = submit('b', 'c', 'd', 'x', 'e')
  for (let index = 0; index < 5; index += 1) {
    sent[index]?.answer()
    await turn()
    await turn()
    await turn()
  }
  await Promise.all(rest)
  expect(idsOf()).toEqual(['a', 'bc', 'de', 'x'])
})
