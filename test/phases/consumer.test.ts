import type pg from 'pg'
import { expect, expectTypeOf, test } from 'vitest'
import { bodyOf, createOnce, type Message, type Once, reply } from '../../src/index.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { codeOf } from '../support/code-of.js'
import { useDatabase } from '../support/postgres/database.js'
import { setup } from './setup.js'

const database = useDatabase()

type Paid = Message<{ invoice: string; fail?: 'thrown' | 'sql' }>

/** A consumer that writes a line of its own for each time that its work is done. */
async function setupConsumer() {
  const bundle = await setup(database)
  await database.ensure('create table if not exists paid (invoice text, tenant text)')
  const { once, tenant } = bundle
  const onPaid = once.consumer('payments', { tenant }, async (tx, { body }: Paid) => {
    await tx.query('insert into paid values ($1, $2)', [body.invoice, tenant])
    if (body.fail === 'thrown') throw new Error('no')
    if (body.fail === 'sql') await tx.query('select 1/0')
  })
  const paid = async () =>
    (await database.pool.query<{ invoice: string }>('select invoice from paid where tenant = $1', [tenant])).rows.map(
      ({ invoice }) => invoice,
    )
  return { ...bundle, onPaid, paid }
}

async function inTransaction<T>(work: (tx: pg.PoolClient) => Promise<T>, end: 'commit' | 'rollback' = 'commit'): Promise<T> {
  const tx = await database.pool.connect()
  try {
    await tx.query('begin')
    const result = await work(tx)
    await tx.query(end)
    return result
  } finally {
    tx.release()
  }
}

test('does the work of a message once, and says so to every later delivery', async () => {
  const { onPaid, paid, events } = await setupConsumer()
  const message = { id: 'evt_1', body: { invoice: 'a' } }
  expect(await onPaid.handle(message)).toMatchObject({ kind: 'executed', stored: true, answer: { status: 204 } })
  expect(await onPaid.handle(message)).toMatchObject({ kind: 'replayed', state: 'complete' })
  expect(await onPaid.handle({ id: 'evt_2', body: { invoice: 'b' } })).toMatchObject({ kind: 'executed' })
  expect(await paid()).toEqual(['a', 'b'])
  expect(events).toEqual(['executing', 'finished', 'replayed', 'executing', 'finished'])
})

test.each(['thrown', 'sql'] as const)('leaves nothing of work that failed (%s), and does it when the message comes again', async (fail) => {
  const { onPaid, paid, key } = await setupConsumer()
  await expect(onPaid.handle({ id: 'evt_1', body: { invoice: 'a', fail } })).rejects.toThrow(fail === 'thrown' ? 'no' : 'division by zero')
  expect([await paid(), await key('evt_1')]).toEqual([[], undefined])
  expect((await onPaid.handle({ id: 'evt_1', body: { invoice: 'a' } })).kind).toBe('executed')
  expect(await paid()).toEqual(['a'])
})

test("takes part in a transaction of the caller's, and counts when that is committed", async () => {
  const { onPaid, paid } = await setupConsumer()
  const message = { id: 'evt_1', body: { invoice: 'a' } }
  expect((await inTransaction((tx) => onPaid.within(tx, message), 'rollback')).kind).toBe('executed')
  expect(await paid()).toEqual([])
  expect((await inTransaction((tx) => onPaid.within(tx, message))).kind).toBe('executed')
  expect((await inTransaction((tx) => onPaid.within(tx, message))).kind).toBe('replayed')
  // Both ways are one inbox.
  expect((await onPaid.handle(message)).kind).toBe('replayed')
  expect(await paid()).toEqual(['a'])
})

test('lets a delivery that comes meanwhile wait for the first one, and replay', async () => {
  const { once, tenant } = await setupConsumer()
  let runs = 0
  const slow = once.consumer('slow', { tenant }, async (tx) => {
    runs += 1
    await tx.query('select pg_sleep(0.1)')
  })
  const outcomes = await Promise.all(Array.from({ length: 10 }, () => slow.handle({ id: 'evt_1', body: null })))
  expect(outcomes.map(({ kind }) => kind).sort()).toEqual(['executed', ...Array(9).fill('replayed')])
  expect(runs).toBe(1)
})

test('keeps messages of tenants and of consumers apart that have one id', async () => {
  const { once, tenant } = await setupConsumer()
  const seen: string[] = []
  const options = { tenant: ({ account }: Message & { account: string }) => `${tenant} ${account}` }
  const first = once.consumer('first', options, (_, { account }) => void seen.push(`first ${account}`))
  const second = once.consumer('second', options, (_, { account }) => void seen.push(`second ${account}`))
  for (const consumer of [first, second, first]) {
    for (const account of ['a', 'b']) await consumer.handle({ id: 'evt_1', body: null, account })
  }
  expect(seen).toEqual(['first a', 'first b', 'second a', 'second b'])
})

test('compares nothing but the id, unless it is told what must be equal', async () => {
  const { once, onPaid, tenant } = await setupConsumer()
  await onPaid.handle({ id: 'evt_1', body: { invoice: 'a' } })
  expect((await onPaid.handle({ id: 'evt_1', body: { invoice: 'b' } })).kind).toBe('replayed')
  const strict = once.consumer('strict', { tenant, fingerprint: ({ body }) => ({ value: body }) }, () => {})
  await strict.handle({ id: 'evt_1', body: { invoice: 'a', cents: 1 } })
  expect((await strict.handle({ id: 'evt_1', body: { cents: 1, invoice: 'a' } })).kind).toBe('replayed')
  expect(await strict.handle({ id: 'evt_1', body: { invoice: 'b', cents: 1 } })).toEqual({ kind: 'mismatch', part: 'body' })
})

test('remembers a message for seven days, or as long as it is told, whatever the rest of the service does', async () => {
  const { tenant, newOnce } = await setup(database, { retention: '1h' })
  const days = async (name: string, options: { retention?: '30d' }) => {
    await newOnce()
      .consumer(name, { tenant, ...options }, () => {})
      .handle({ id: 'm', body: null })
    const { rows } = await database.pool.query<{ days: number }>(
      `select round(extract(epoch from expires_at - created_at) / 86400)::integer as days from oncekey.keys where tenant = $1 and scope = $2`,
      [tenant, name],
    )
    return rows[0]?.days
  }
  expect(await days('standard', {})).toBe(7)
  expect(await days('longer', { retention: '30d' })).toBe(30)
})

test('stores what the work answers; an answer that says "not done" is an error, and nothing is stored', async () => {
  const { once, tenant, key } = await setupConsumer()
  const accepts = once.consumer('accepts', { tenant }, () => reply(202, { accepted: true }))
  await accepts.handle({ id: 'accepted', body: null })
  const replayed = await accepts.handle({ id: 'accepted', body: null })
  expect(replayed.kind === 'replayed' && replayed.state === 'complete' && bodyOf(replayed.answer)).toEqual({ accepted: true })
  for (const status of [303, 404, 500]) {
    const refuses = once.consumer(`refuses-${status}`, { tenant }, () => reply(status))
    await expect(refuses.handle({ id: `refused-${status}`, body: null })).rejects.toMatchObject({ code: 'answer_invalid' })
    expect(await key(`refused-${status}`)).toBeUndefined()
  }
  // @ts-expect-error What a query returns is no answer.
  const forgets = once.consumer('forgets', { tenant }, async (tx) => tx.query('select 1'))
  await expect(forgets.handle({ id: 'm', body: null })).rejects.toMatchObject({ code: 'answer_invalid' })
})

test('refuses a message without an id before anything is claimed', async () => {
  const { onPaid, paid } = await setupConsumer()
  for (const id of ['', 'x'.repeat(256), undefined as unknown as string]) {
    await expect(onPaid.handle({ id, body: { invoice: 'a' } })).rejects.toMatchObject({ code: 'key_invalid' })
  }
  expect(await paid()).toEqual([])
})

test('says at start what is wrong with its options', async () => {
  const { once } = await setup(database)
  const define = (options: object, on: Once<pg.PoolClient> = once) => codeOf(() => on.consumer('checked', options as never, () => {}))
  expect(define({})).toBe('option_invalid')
  expect(define({ tenant: 'single', fingerprint: { value: 1 } })).toBe('option_invalid')
  expect(define({ tenant: 'single', retention: 'a week' })).toBe('duration_invalid')
  expect(define({ tenant: 'single' }, createOnce({ store: memoryStore() }) as never)).toBe('steps_unsupported')
  expect(define({ tenant: 'single' })).toBe(null)
  expect(define({ tenant: 'single' })).toBe('operation_name_taken')
  expect(codeOf(() => once.consumer('', { tenant: 'single' }, () => {}))).toBe('scope_invalid')
})

test('knows the types of messages and answers', () => {
  const once = createOnce({ store: postgresStore(fromPg(database.createPool())) })
  const consumer = once.consumer('typed', { tenant: 'single' }, async (tx, { body }: Message<{ invoice: string }>) => {
    expectTypeOf(tx).toEqualTypeOf<pg.PoolClient>()
    return reply(200, { invoice: body.invoice })
  })
  expectTypeOf(consumer.handle).parameter(0).toEqualTypeOf<Message<{ invoice: string }>>()
  const read = async () => {
    const outcome = await consumer.handle({ id: '1', body: { invoice: 'a' } })
    if (outcome.kind === 'executed') expectTypeOf(bodyOf(outcome.answer)).toEqualTypeOf<{ invoice: string }>()
    // @ts-expect-error It has no invoice.
    await consumer.handle({ id: '1', body: {} })
  }
  expectTypeOf(read).returns.resolves.toBeVoid()
  once.consumer('untyped', { tenant: 'single' }, (_, { body }) => {
    expectTypeOf(body).toBeUnknown()
  })
})
