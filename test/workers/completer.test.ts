import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { createOnce, type KeyRef, type Once, OncekeyError, type OperationRun, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { completer, sweeper, workers } from '../../src/workers/index.js'
import { codeOf } from '../support/code-of.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { leaseMs, paid, setup } from './setup.js'

const database = useDatabase()

type Body = (run: OperationRun<pg.PoolClient>, input: unknown) => Promise<ReturnType<typeof paid>> | ReturnType<typeof paid>

const none = { completed: 0, failed: 0, parked: 0, elsewhere: 0 }
const hour = 3_600_000

/** An operation whose first request fails, so that its key waits, and that does what it is told from then on. */
async function abandoned(key: string, body: Body, options = {}) {
  const bundle = await setup(database, options)
  let fails = true
  const pay = (once: Once<pg.PoolClient>) =>
    once.operation(`pay-${bundle.tenant}`, {}, (run, input) => {
      if (fails) throw new Error('the client sees this, and never comes back')
      return body(run, input)
    })
  const operation = pay(bundle.once)
  const request = { tenant: bundle.tenant, key, input: { amount: 7 } }
  await expect(operation.run(request)).rejects.toThrow('never comes back')
  fails = false
  const record = () => bundle.store.keyRead({ tenant: bundle.tenant, scope: operation.name, key })
  return { ...bundle, operation, request, record, pay }
}

test('takes a request to its end whose client never came back, from what was stored of it', async () => {
  const inputs: unknown[] = []
  const { once, advance, record, operation, request } = await abandoned('k', (run, input) => {
    inputs.push([input, run.attempt])
    return paid()
  })
  await advance(20_000)
  expect(await completer(once).runOnce()).toEqual({ ...none, completed: 1 })
  expect(inputs).toEqual([[{ amount: 7 }, 2]])
  expect(await record()).toMatchObject({ state: 'complete', attempts: 1 })
  expect((await operation.run(request)).kind).toBe('replayed')
})

test('lets the client go first: a key that failed is due in some seconds only', async () => {
  const { once, advance, record } = await abandoned('k', paid)
  expect(await completer(once).runOnce()).toEqual(none)
  await advance(7_000)
  expect(await completer(once).runOnce()).toEqual(none)
  await advance(8_001)
  expect((await completer(once).runOnce()).completed).toBe(1)
  expect((await record())?.state).toBe('complete')
})

test('takes up what a crash left, once it is swept', async () => {
  const { once, store, tenant, abandon, advance } = await setup(database)
  let runs = 0
  once.operation('pay', {}, () => {
    runs += 1
    return paid()
  })
  await abandon('crashed', { request: new TextEncoder().encode('{"amount":7}') })
  await advance(leaseMs + 1)
  expect(await workers(once).runOnce()).toMatchObject({ 'sweeper.pending': 1, 'completer.completed': 1, 'reaper.reaped': 0 })
  expect(runs).toBe(1)
  expect((await store.keyRead({ tenant, scope: 'pay', key: 'crashed' }))?.state).toBe('complete')
})

test('tries again, later each time, and parks the key after the last attempt, with the last error', async () => {
  const tries: number[] = []
  const { once, advance, record } = await abandoned('k', (run) => {
    tries.push(run.attempt)
    throw new Error('the provider is down')
  })
  const service = completer(once, { maxAttempts: 3 })
  const counts = []
  for (let turn = 0; turn < 6; turn += 1) {
    await advance(hour)
    counts.push(await service.runOnce())
  }
  expect(counts).toEqual([{ ...none, failed: 1 }, { ...none, failed: 1 }, { ...none, failed: 1 }, none, none, none])
  expect(tries).toEqual([2, 3, 4])
  expect(await record()).toMatchObject({ state: 'parked', attempts: 3, reason: 'Error: the provider is down' })
})

test('waits twice as long after each attempt', async () => {
  const { once, tenant, advance } = await abandoned('k', () => {
    throw new Error('the provider is down')
  })
  const delays: number[] = []
  for (let turn = 0; turn < 5; turn += 1) {
    await advance(hour)
    await completer(once).runOnce()
    const { rows } = await database.pool.query(
      `select extract(epoch from due_at - clock_timestamp())::float8 as delay from oncekey.keys where tenant = $1`,
      [tenant],
    )
    delays.push(rows[0].delay)
  }
  for (const [index, delay] of delays.entries()) {
    const longest = 15 * 2 ** (index + 1)
    expect(delay).toBeGreaterThan(longest / 2 - 5)
    expect(delay).toBeLessThanOrEqual(longest)
  }
})

test('parks work that ends its process each time, without running it once more', async () => {
  const { once, store, tenant, abandon, advance, events } = await setup(database)
  let runs = 0
  once.operation('pay', {}, () => {
    runs += 1
    return paid()
  })
  const key = 'poison'
  await abandon(key, { request: new TextEncoder().encode('null') })
  // Two workers took it, and were never heard of again.
  for (let turn = 0; turn < 2; turn += 1) {
    await advance(leaseMs + 1)
    await sweeper(once).runOnce()
    await abandon(key, { worker: true })
  }
  await advance(leaseMs + 1)
  await sweeper(once).runOnce()
  expect(await completer(once, { maxAttempts: 2 }).runOnce()).toEqual({ ...none, parked: 1 })
  expect(runs).toBe(0)
  expect(await store.keyRead({ tenant, scope: 'pay', key })).toMatchObject({ state: 'parked', reason: expect.stringContaining('2 times') })
  expect(events.map(({ type }) => type)).toContain('parked')
})

test('leaves operations alone that it does not know, until it does', async () => {
  const { once, newOnce, advance, record, pay } = await abandoned('k', paid)
  await advance(hour)
  expect(await completer(newOnce()).runOnce()).toEqual(none)
  expect((await record())?.state).toBe('pending')
  const deployed = newOnce()
  pay(deployed)
  expect((await completer(deployed).runOnce()).completed).toBe(1)
  expect(await completer(once).runOnce()).toEqual(none)
})

test('carries out each key once, with five processes at it', async () => {
  const runs = new Map<string, number>()
  const { newOnce, store, tenant, advance } = await setup(database)
  const scope = `pay-${tenant}`
  const define = (once: Once<pg.PoolClient>, fails: boolean) =>
    once.operation(scope, {}, (run) => {
      if (fails) throw new Error('first')
      runs.set(run.idempotencyKey, (runs.get(run.idempotencyKey) ?? 0) + 1)
      return paid()
    })
  const failing = define(newOnce(), true)
  const keys = Array.from({ length: 60 }, (_, number) => `key-${number}`)
  await Promise.all(keys.map((key) => failing.run({ tenant, key, input: null }).catch(() => {})))
  await advance(hour)
  const processes = Array.from({ length: 5 }, () => {
    const once = newOnce()
    define(once, false)
    return completer(once, { slots: 4 })
  })
  const counts = await Promise.all(processes.map((service) => service.runOnce()))
  expect(counts.reduce((sum, { completed = 0 }) => sum + completed, 0)).toBe(60)
  expect([...runs.values()]).toEqual(keys.map(() => 1))
  for (const key of keys) expect((await store.keyRead({ tenant, scope, key }))?.state).toBe('complete')
})

test('has no more than its slots under way, and one that is slow keeps nobody else waiting', async () => {
  const { newOnce, tenant, advance } = await setup(database)
  const scope = `pay-${tenant}`
  const failing = newOnce().operation(scope, {}, () => {
    throw new Error('first')
  })
  const keys = ['slow', ...Array.from({ length: 12 }, (_, number) => `key-${number}`)]
  for (const key of keys) await failing.run({ tenant, key, input: null }).catch(() => {})
  await advance(hour)
  const once = newOnce()
  let [now, most, done] = [0, 0, 0]
  let finishSlow = () => {}
  once.operation(scope, {}, async (run) => {
    now += 1
    most = Math.max(most, now)
    if (run.idempotencyKey === 'slow') await new Promise<void>((resolve) => (finishSlow = resolve))
    else await new Promise(setImmediate)
    now -= 1
    done += 1
    return paid()
  })
  const service = completer(once, { slots: 3, every: '10ms' })
  service.start()
  await waitUntil('all others are done, and the slow one is under way', () => done === 12 && now === 1)
  expect(most).toBeLessThanOrEqual(3)
  const stopped = service.stop()
  finishSlow()
  await stopped
  expect(done).toBe(13)
})

test('goes on when an operation throws, and when its stored input does not fit any more', async () => {
  const { once, newOnce, tenant, advance, store } = await setup(database)
  const scope = `pay-${tenant}`
  const failing = newOnce().operation(scope, {}, () => {
    throw new Error('first')
  })
  await failing.run({ tenant, key: 'k', input: { amount: 'seven' } }).catch(() => {})
  await advance(hour)
  once.operation(scope, { input: z.object({ amount: z.number() }) }, paid)
  expect(await completer(once, { maxAttempts: 1 }).runOnce()).toEqual({ ...none, failed: 1 })
  expect(await store.keyRead({ tenant, scope, key: 'k' })).toMatchObject({
    state: 'parked',
    reason: expect.stringContaining('does not fit'),
  })
})

test('trouble with the store is not the fault of the operation: it does not park at the last attempt', async () => {
  const { once, advance, record } = await abandoned('k', () => {
    throw new OncekeyError('store_unavailable', 'as a phase says that cannot begin')
  })
  await advance(hour)
  expect(await completer(once, { maxAttempts: 1 }).runOnce()).toEqual({ ...none, failed: 1 })
  expect((await record())?.state).toBe('pending')
})

test('lets requests rest that it cannot open, and comes to those behind them', async () => {
  const { newOnce, tenant, advance, store } = await setup(database)
  const scope = `pay-${tenant}`
  const sealed = { store: postgresStore(fromPg(database.pool)), encryption: { keys: [{ id: 'lost', key: randomBytes(32) }] } }
  const ended = createOnce(sealed).operation(scope, {}, paid)
  for (let number = 0; number < 5; number += 1) await ended.enqueue({ tenant, key: `sealed-${number}`, input: null })
  const once = newOnce()
  await once.operation(scope, {}, paid).enqueue({ tenant, key: 'plain', input: null })
  const service = completer(once, { slots: 2 })
  expect(await service.runOnce()).toEqual({ ...none, completed: 1, failed: 5 })
  expect(await service.runOnce()).toEqual(none)
  expect(await store.keyRead({ tenant, scope, key: 'sealed-0' })).toMatchObject({ state: 'pending', attempts: 1 })
  await advance(hour)
  expect(await service.runOnce()).toEqual({ ...none, failed: 5 })
})

test('tries a key once in one go that cannot be claimed', async () => {
  const { tenant, advance } = await setup(database)
  const connection = fromPg(database.pool)
  // A server that has become a standby, which the pool has not noticed.
  const standby: typeof connection = {
    ...connection,
    query: async (text, values) =>
      text.includes('update')
        ? Promise.reject(Object.assign(new Error('cannot execute UPDATE in a read-only transaction'), { code: '25006' }))
        : connection.query(text, values),
  }
  const scope = `pay-${tenant}`
  const failing = createOnce({ store: postgresStore(connection) }).operation(scope, {}, () => {
    throw new Error('first')
  })
  await failing.run({ tenant, key: 'k', input: null }).catch(() => {})
  await advance(hour)
  const once = createOnce({ store: postgresStore(standby), storeTimeout: '1s' })
  once.operation(scope, {}, paid)
  expect(await completer(once).runOnce()).toEqual({ ...none, failed: 1 })
})

test('begins nothing more once it was told to stop, also if it was looking just then', async () => {
  const { advance, record, once } = await abandoned('k', paid)
  await advance(hour)
  const locked = await database.pool.connect()
  await locked.query('begin')
  await locked.query('lock table oncekey.keys')
  const service = completer(once)
  service.start()
  await waitUntil('it looks', async () => (await database.pool.query('select from pg_locks where not granted')).rows.length > 0)
  const stopped = service.stop()
  await locked.query('rollback')
  locked.release()
  await stopped
  expect((await record())?.state).toBe('pending')
})

test('begins at once with what this process leaves to workers', async () => {
  const { once, tenant, eventsOf } = await setup(database)
  let done = 0
  const operation = once.operation(`pay-${tenant}`, {}, () => {
    done += 1
    return paid()
  })
  const service = completer(once, { every: '1h' })
  service.start()
  await waitUntil('it rests', () => eventsOf('worker-ran').length > 0)
  await operation.enqueue({ tenant, key: 'first', input: null })
  await waitUntil('it is done', () => done === 1)
  await service.stop()
  await operation.enqueue({ tenant, key: 'second', input: null })
  expect(once.internals.onEnqueued.size).toBe(0)
})

test('works off what waits without a rest in between', async () => {
  const { once, tenant } = await setup(database)
  let done = 0
  const operation = once.operation(`pay-${tenant}`, {}, () => {
    done += 1
    return paid()
  })
  for (let number = 0; number < 25; number += 1) await operation.enqueue({ tenant, key: `key-${number}`, input: null })
  const service = completer(once, { slots: 2, every: '1h' })
  service.start()
  await waitUntil('all are done', () => done === 25)
  await service.stop()
})

test('tells of a single go, too', async () => {
  const { once, eventsOf } = await abandoned('k', paid)
  await completer(once).runOnce()
  expect(eventsOf('worker-ran')).toEqual([{ type: 'worker-ran', worker: 'completer', counts: none, durationMs: expect.any(Number) }])
})

test('runs nothing of an earlier life of the key on a later one', async () => {
  const { once, tenant, abandon, advance, store } = await setup(database)
  const scope = `pay-${tenant}`
  const inputs: unknown[] = []
  const operation = once.operation(scope, { retention: '1h' }, (_, input) => {
    inputs.push(input)
    if (inputs.length === 1) throw new Error('first')
    return paid()
  })
  await operation.run({ tenant, key: 'k', input: 'old' }).catch(() => {})
  // Between the look at the stored request and the claim, the key ends, expires, and is used anew by work that keeps no request.
  const keyRead = once.internals.parts.store.keyRead
  Object.assign(once.internals.parts.store, {
    async keyRead(ref: KeyRef) {
      const record = await keyRead(ref)
      Object.assign(once.internals.parts.store, { keyRead })
      await store.keyFinish({
        ...{ lease: await abandon('k', { scope }), state: 'complete', answer: { status: 201, headers: [], body: new Uint8Array() } },
        retention: { ms: hour, from: 'creation', floorMs: 0 },
      })
      await advance(2 * hour)
      await abandon('k', { scope })
      await advance(leaseMs + 1)
      return record
    },
  })
  await expect(operation.resume({ tenant, key: 'k' })).rejects.toMatchObject({ code: 'input_invalid' })
  expect(inputs).toEqual(['old'])
})

test('gives the slots of bodies that never return to others once their maxRun is over, and stops although they go on', async () => {
  const { newOnce, tenant, store } = await setup(database, { storeTimeout: '200ms', lease: leaseMs })
  const [stuck, plain] = [`stuck-${tenant}`, `plain-${tenant}`]
  const once = newOnce()
  let began = 0
  const never = once.operation(stuck, { maxRun: '300ms' }, () => {
    began += 1
    return new Promise<ReturnType<typeof paid>>(() => {})
  })
  const others = once.operation(plain, {}, paid)
  for (const key of ['a', 'b', 'c']) await never.enqueue({ tenant, key, input: null })
  const service = completer(once, { slots: 3, every: '50ms' })
  service.start()
  await waitUntil('all slots are taken', () => began === 3)
  for (let number = 0; number < 6; number += 1) await others.enqueue({ tenant, key: `key-${number}`, input: null })
  for (let number = 0; number < 6; number += 1) {
    await waitUntil('it is done', async () => (await store.keyRead({ tenant, scope: plain, key: `key-${number}` }))?.state === 'complete')
  }
  await service.stop()
})

test('comes to keys behind those that it cannot claim, and to these when they can be claimed again', async () => {
  const { once, newOnce, tenant, advance, store } = await setup(database)
  const scope = `pay-${tenant}`
  const waiting = newOnce().operation(scope, {}, paid)
  for (let number = 0; number < 30; number += 1) await waiting.enqueue({ tenant, key: `broken-${number}`, input: null })
  await advance(60_000)
  for (let number = 0; number < 5; number += 1) await waiting.enqueue({ tenant, key: `free-${number}`, input: null })
  await database.pool.query(`
    create function break_claims() returns trigger language plpgsql as $$ begin raise exception 'no claim'; end $$;
    create trigger break_claims before update on oncekey.keys for each row when (old.key like 'broken-%') execute function break_claims()`)
  const mend = () => database.pool.query('drop function if exists break_claims cascade')
  onTestFinished(async () => void (await mend()))
  let runs = 0
  once.operation(scope, {}, () => {
    runs += 1
    return paid()
  })
  const service = completer(once, { slots: 2, every: '50ms' })
  service.start()
  const isDone = async (key: string) => (await store.keyRead({ tenant, scope, key }))?.state === 'complete'
  for (let number = 0; number < 5; number += 1) await waitUntil('it is done', () => isDone(`free-${number}`))
  expect(runs).toBe(5)
  await mend()
  for (let number = 0; number < 30; number += 1) await waitUntil('it is done, too', () => isDone(`broken-${number}`))
  await service.stop()
})

test('carries out keys one at a time whose holders have vanished twice, and others beside them', async () => {
  const { once, tenant, abandon, advance } = await setup(database)
  const scope = `pay-${tenant}`
  const request = new TextEncoder().encode('null')
  for (const key of ['suspect-1', 'suspect-2', 'suspect-3']) {
    await abandon(key, { scope, request })
    for (let times = 0; times < 2; times += 1) {
      await advance(leaseMs + 1)
      await sweeper(once).runOnce()
      await abandon(key, { scope, request, worker: true })
    }
  }
  await advance(leaseMs + 1)
  await sweeper(once).runOnce()
  let [suspects, most, others] = [0, 0, 0]
  const operation = once.operation(scope, {}, async (run) => {
    const isSuspect = run.idempotencyKey.startsWith('suspect')
    if (isSuspect) most = Math.max(most, ++suspects)
    else others += 1
    await waitUntil('others are done beside it', () => others === 4)
    if (isSuspect) suspects -= 1
    return paid()
  })
  for (let number = 0; number < 4; number += 1) await operation.enqueue({ tenant, key: `new-${number}`, input: null })
  expect(await completer(once, { slots: 6 }).runOnce()).toEqual({ ...none, completed: 7 })
  expect(most).toBe(1)
})

describe('options', () => {
  test.each([{ slots: 0 }, { slots: 1.5 }, { maxAttempts: 0 }, { maxAttempts: Number.NaN }])('%o is an error at once', async (options) => {
    const { once } = await setup(database)
    expect(codeOf(() => completer(once, options))).toBe('option_invalid')
  })
})

test('a reply that is a decline is an end like any other', async () => {
  const { once, advance, record } = await abandoned('k', () => reply(402, { paid: true }))
  await advance(hour)
  expect((await completer(once).runOnce()).completed).toBe(1)
  expect((await record())?.answer?.status).toBe(402)
})
