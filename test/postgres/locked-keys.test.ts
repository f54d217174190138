// What becomes of a request whose key's row another session has locked, and does not let go.
import { expect, onTestFinished, test } from 'vitest'
import { createOnce, type Duration, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { aClaim, aFinish, again, anAnswer, take } from '../../src/testing/store-cases/store-case.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'

const database = useDatabase()
const limit = { timeoutMs: 400 }

async function lockRow(claim: { tenant: string }) {
  const frozen = await database.pool.connect()
  const letGo = async () => void (await frozen.query('rollback'))
  onTestFinished(async () => {
    await letGo()
    frozen.release()
  })
  await frozen.query('begin')
  await frozen.query('select from oncekey.keys where tenant = $1 for update', [claim.tenant])
  return letGo
}

/** Moves the key's times into the past. */
const age = ({ tenant }: { tenant: string }) =>
  database.pool.query(
    `update oncekey.keys set locked_until = locked_until - interval '1 day', due_at = due_at - interval '1 day',
       created_at = created_at - interval '3 days', expires_at = expires_at - interval '3 days', reap_after = reap_after - interval '3 days'
     where tenant = $1`,
    [tenant],
  )

/** Statements that wait for a lock in this database. */
async function waiting(): Promise<number> {
  const { rows } = await database.pool.query(
    `select count(*)::integer as count from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
  )
  return rows[0].count
}

const setup = () => ({ store: postgresStore(fromPg(database.createPool({ max: 4 }))), claim: aClaim() })

test.each(['rerun', 'store', 'park'] as const)(
  'an abandoned key (%s) that is locked is in progress, and nothing waits for it',
  async (afterFailure) => {
    const { store } = setup()
    const claim = aClaim({ afterFailure })
    await take(store, claim)
    await age(claim)
    const letGo = await lockRow(claim)
    const retries = Array.from({ length: 12 }, () => store.keyClaim(again(claim), limit))
    for (const retry of retries) expect((await retry).kind).toBe('in-progress')
    expect(await waiting()).toBe(0)
    expect((await store.keyClaim(aClaim(), limit)).kind).toBe('execute')
    await letGo()
    expect((await store.keyClaim(again(claim))).kind).toBe({ rerun: 'execute', store: 'replay', park: 'parked' }[afterFailure])
  },
)

test('an expired key that is locked is in progress, and begins anew once it is free', async () => {
  const { store, claim } = setup()
  await store.keyFinish(aFinish(await take(store, claim)))
  await age(claim)
  const letGo = await lockRow(claim)
  expect((await store.keyClaim(again(claim), limit)).kind).toBe('in-progress')
  await letGo()
  expect(await take(store, again(claim))).toMatchObject({ lease: { fence: 1 }, takenOver: false })
})

test('the last write of a holder ends at its limit while its row is locked, and is made once it is free', async () => {
  const { store } = setup()
  const [first, second, third] = [aClaim(), aClaim(), aClaim()] as const
  const held = [await take(store, first), await take(store, second), await take(store, third)] as const
  const locks = [await lockRow(first), await lockRow(second), await lockRow(third)]
  const writes = [
    () => store.keyFinish(aFinish(held[0]), limit),
    () => store.keyRelease(held[1], limit),
    () => store.keyPark({ ...held[2], answer: anAnswer, reason: 'asked' }, limit),
  ]
  for (const write of writes) await expect(write()).rejects.toMatchObject({ code: 'store_timeout' })
  expect(await waiting()).toBe(0)
  const patient = writes.map((write) => write().catch(() => 'late'))
  for (const letGo of locks) await letGo()
  expect(await Promise.all(patient)).toEqual(['done', 'done', 'done'])
})

test('a withdrawal of a locked key is asked for again later', async () => {
  const { store, claim } = setup()
  await take(store, claim)
  const letGo = await lockRow(claim)
  expect(await store.keyWithdraw(claim, limit)).toBe('locked')
  await letGo()
  expect(await store.keyWithdraw(claim, limit)).toBe('done')
})

test('retries of a locked key leave long work its heartbeats and its finish', async () => {
  const pool = database.createPool({ max: 4 })
  const once = createOnce({ store: postgresStore(fromPg(pool)), lease: '1s', storeTimeout: '1s' })
  const request = { scope: 's', key: 'k', fingerprint: false, afterFailure: 'rerun' } as const
  const locked = aClaim({ scope: 's', key: 'k', fingerprint: null })
  await take(postgresStore(fromPg(database.pool)), locked)
  await age(locked)
  await lockRow(locked)
  let end = () => {}
  const ended = new Promise<void>((resolve) => {
    end = resolve
  })
  const long = once.execute({ ...request, tenant: 'long work' }, async () => {
    await ended
    return reply(200)
  })
  const began = performance.now()
  let turnedAway = 0
  await waitUntil('its lease would have ended twice', async () => {
    const outcomes = await Promise.all(
      Array.from({ length: 8 }, () => once.execute({ ...request, tenant: locked.tenant }, () => reply(200))),
    )
    turnedAway += outcomes.filter(({ kind }) => kind === 'in-progress').length
    return performance.now() - began > 2_000
  })
  end()
  expect(await long).toMatchObject({ kind: 'executed', stored: true })
  expect(turnedAway % 8).toBe(0)
})

test('a duplicate of local work waits and replays; after storeTimeout it is in progress, and no statement waits on', async () => {
  // The server gives up after nine tenths of it. The rest must be enough for a busy machine to hear of that.
  const once = createOnce({ store: postgresStore(fromPg(database.createPool({ max: 8 }))), storeTimeout: '5s' })
  let end = () => {}
  const ended = new Promise<void>((resolve) => {
    end = resolve
  })
  let runs = 0
  const local = once.local('slow.local', {}, async () => {
    runs += 1
    await ended
    return reply(201, { runs })
  })
  const request = { tenant: 'local', key: 'k', input: {} }
  const first = local.run(request)
  await waitUntil('it runs', () => runs)
  const impatient = await Promise.all(Array.from({ length: 3 }, () => local.run(request)))
  expect(impatient.map(({ kind }) => kind)).toEqual(['in-progress', 'in-progress', 'in-progress'])
  expect(await waiting()).toBe(0)
  const patient = local.run(request)
  await new Promise((resolve) => setTimeout(resolve, 100))
  end()
  expect([(await first).kind, (await patient).kind, runs]).toEqual(['executed', 'replayed', 1])
})

/** A message that another process has in an open transaction, and a service with few connections that it is delivered to. */
async function deliveredElsewhere(tenant: string, storeTimeout: Duration) {
  const pool = database.createPool({ max: 4 })
  const once = createOnce({ store: postgresStore(fromPg(pool)), storeTimeout })
  const consumer = once.consumer('inbox', { tenant }, () => {})
  const other = await database.pool.connect()
  onTestFinished(async () => {
    await other.query('rollback')
    other.release()
  })
  await other.query('begin')
  const messages = ['one', 'two', 'three', 'four', 'five', 'six']
  const elsewhere = createOnce({ store: postgresStore(fromPg(database.pool)) })
  for (const key of messages) await elsewhere.within(other, { tenant, scope: 'inbox', key }, () => {})
  return { pool, once, messages, deliver: (id: string) => consumer.handle({ id, body: null }), end: () => other.query('commit') }
}

test.each([
  ['one message', 1],
  ['six messages', 6],
])('redeliveries of %s that another process works on leave connections to others, and replay soon after it', async (_, count) => {
  const tenant = `redelivered-${count}`
  const { once, messages, deliver, end } = await deliveredElsewhere(tenant, '10s')
  const waiting = Array.from({ length: 24 }, (_, index) => deliver(messages[index % count] as string))
  await new Promise((resolve) => setTimeout(resolve, 300))
  const began = performance.now()
  const others = Array.from({ length: 20 }, (_, index) =>
    once.execute({ tenant, scope: 's', key: `other-${index}`, fingerprint: false, afterFailure: 'rerun' }, () => reply(200)),
  )
  expect((await Promise.all(others)).map(({ kind }) => kind)).toEqual(others.map(() => 'executed'))
  // Not behind the redeliveries, which wait for ten seconds.
  expect(performance.now() - began).toBeLessThan(5_000)
  await end()
  expect((await Promise.all(waiting)).map(({ kind }) => kind)).toEqual(waiting.map(() => 'replayed'))
})

test('a redelivery that waited for storeTimeout is in progress, and its connection is as good as before', async () => {
  const { pool, messages, deliver } = await deliveredElsewhere('redelivered-late', '1s')
  let removed = 0
  pool.on('remove', () => {
    removed += 1
  })
  const waiting = Array.from({ length: 12 }, (_, index) => deliver(messages[index % 2] as string))
  expect((await Promise.all(waiting)).map(({ kind }) => kind)).toEqual(waiting.map(() => 'in-progress'))
  expect(removed).toBe(0)
})

test('the waits for a connection and for the key of local work have one limit', async () => {
  const pool = database.createPool({ max: 2 })
  const once = createOnce({ store: postgresStore(fromPg(pool)), storeTimeout: '2s' })
  let end = () => {}
  const ended = new Promise<void>((resolve) => {
    end = resolve
  })
  let runs = 0
  const local = once.local('slow.start', {}, async () => {
    runs += 1
    await ended
    return reply(201)
  })
  const request = { tenant: 'local', key: 'k', input: {} }
  const first = local.run(request)
  await waitUntil('it runs', () => runs)
  const busy = await pool.connect()
  const began = performance.now()
  const second = local.run(request)
  setTimeout(() => busy.release(), 1_700)
  expect((await second).kind).toBe('in-progress')
  // Each wait by itself: 3.7 s.
  expect(performance.now() - began).toBeLessThan(3_200)
  end()
  await first
})

test("inside a user's transaction the wait ends, their rows and their own lock_timeout stay", async () => {
  const store = postgresStore(fromPg(database.createPool()))
  const once = createOnce({ store, storeTimeout: '300ms' })
  await database.ensure('create table if not exists inbox_rows (id text primary key)')
  const options = { tenant: 'inbox', scope: 's', key: 'k' }
  const [first, second] = [await database.pool.connect(), await database.pool.connect()]
  onTestFinished(() => {
    first.release()
    second.release()
  })
  await first.query('begin')
  await once.within(first, options, () => {})
  await second.query(`begin; set local lock_timeout = '7s'; insert into inbox_rows values ('theirs')`)
  expect((await once.within(second, options, () => {})).kind).toBe('in-progress')
  expect((await once.within(second, { ...options, key: 'other' }, () => {})).kind).toBe('executed')
  const { rows } = await second.query('show lock_timeout')
  expect(rows).toEqual([{ lock_timeout: '7s' }])
  await second.query('commit')
  await first.query('rollback')
  expect((await database.pool.query('select id from inbox_rows')).rows).toEqual([{ id: 'theirs' }])
})

test('an expired key of local work that another transaction begins anew is waited for, and replayed', async () => {
  const once = createOnce({ store: postgresStore(fromPg(database.createPool({ max: 8 }))) })
  let end = () => {}
  let runs = 0
  const local = once.local('local.again', {}, async () => {
    runs += 1
    if (runs === 2)
      await new Promise<void>((resolve) => {
        end = resolve
      })
    return reply(201, { runs })
  })
  const request = { tenant: 'local-again', key: 'k', input: {} }
  await local.run(request)
  await age(request)
  const second = local.run(request)
  await waitUntil('it runs again', () => runs === 2)
  const third = local.run(request)
  const outcome = await Promise.race([third, new Promise((resolve) => setImmediate(() => resolve('waits')))])
  expect(outcome).toBe('waits')
  end()
  expect([(await second).kind, (await third).kind, runs]).toEqual(['executed', 'replayed', 2])
})
