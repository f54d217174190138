import { describe, expect, onTestFinished, test } from 'vitest'
import { createOnce, reply } from '../../src/index.js'
import { fromPg, postgresOperator, postgresStore } from '../../src/stores/postgres/index.js'
import { reaper } from '../../src/workers/index.js'
import { codeOf } from '../support/code-of.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { setup } from './setup.js'

const database = useDatabase()

const nothing = { reaped: 0, timedOut: 0, parked: 0 }
const day = 86_400_000

test('deletes what is past its retention, in batches, and nothing else', async () => {
  const { once, tenant, advance, abandon, record } = await setup(database)
  const finished = (key: string, retention: '1h' | '48h' | 'forever') =>
    once.execute({ tenant, scope: 'pay', key, fingerprint: false, afterFailure: 'rerun', retention }, () => reply(201))
  await Promise.all(Array.from({ length: 25 }, (_, number) => finished(`short-${number}`, '1h')))
  await finished('long', '48h')
  await finished('for ever', 'forever')
  await abandon('unfinished')
  await advance(day)
  expect(await reaper(once, { batch: 10 }).runOnce()).toEqual({ ...nothing, reaped: 25 })
  const states = await Promise.all(['short-0', 'long', 'for ever', 'unfinished'].map(async (key) => (await record(key))?.state))
  expect(states).toEqual([undefined, 'complete', 'complete', 'processing'])
  expect(await reaper(once).runOnce()).toEqual(nothing)
})

test('takes the results of its steps along', async () => {
  const { once, tenant, advance } = await setup(database)
  const operation = once.operation('steps', { retention: '1h' }, async (run) => {
    await run.phase('one', () => 1)
    return reply(201)
  })
  await operation.run({ tenant, key: 'k', input: null })
  const steps = async () => (await database.pool.query('select name from oncekey.steps where tenant = $1', [tenant])).rows.length
  expect(await steps()).toBe(1)
  await advance(day)
  await reaper(once).runOnce()
  expect(await steps()).toBe(0)
})

test('parks what nobody came back for, and tells so', async () => {
  const { once, tenant, advance, eventsOf, record } = await setup(database)
  const work = () => {
    throw new Error('never again')
  }
  const options = { tenant, scope: 'pay', key: 'left', fingerprint: false, afterFailure: 'rerun', retention: '1h' } as const
  await expect(once.execute(options, work)).rejects.toThrow()
  await advance(day)
  expect(await reaper(once).runOnce()).toEqual({ ...nothing, parked: 1 })
  expect(await record('left')).toMatchObject({ state: 'parked', reason: 'nobody came back for it within its retention' })
  expect(eventsOf('parked')).toMatchObject([{ tenant, key: 'left' }])
  expect((await once.execute(options, () => reply(201))).kind).toBe('parked')
})

test('gives a key time that a person lets wait again, also if its retention was over long ago', async () => {
  const { once, tenant, advance, abandon, record } = await setup(database)
  const operator = postgresOperator(fromPg(database.pool))
  const options = (key: string, retention: '1h' | 'forever' = '1h') =>
    ({ tenant, scope: 'pay', key, fingerprint: false, afterFailure: 'park', retention }) as const
  const fails = () => {
    throw new Error('never again')
  }
  await expect(once.execute(options('resolved'), fails)).rejects.toThrow()
  await expect(once.execute(options('for ever', 'forever'), fails)).rejects.toThrow()
  await expect(once.execute({ ...options('retried'), afterFailure: 'rerun' }, fails)).rejects.toThrow()
  await abandon('released', { retention: { ms: 3_600_000, from: 'creation', floorMs: 0 } })
  await advance(3 * day)
  expect(await reaper(once).runOnce()).toEqual({ ...nothing, parked: 1 })
  await advance(3 * day)

  for (const key of ['resolved', 'for ever']) await once.resolve({ tenant, scope: 'pay', key }, { as: 'did-not-happen' })
  const seen = async (key: string) => (await record(key)) as NonNullable<Awaited<ReturnType<typeof record>>>
  expect(await operator.keyRetry(await seen('retried'), { note: 'n' })).toBe(true)
  expect(await operator.keyReleaseByHand(await seen('released'), { note: 'n', fromLiveHolder: false, rerun: false })).toBe(true)
  expect(await reaper(once).runOnce()).toEqual(nothing)
  expect((await once.execute(options('resolved'), () => reply(201))).kind).toBe('executed')
  await advance(2 * 3_600_000)
  expect(await reaper(once).runOnce()).toEqual({ reaped: 1, timedOut: 0, parked: 2 })
  expect((await record('for ever'))?.state).toBe('pending')
})

test('stops while it pauses between two batches', async () => {
  const { once, tenant } = await setup(database)
  await database.pool.query(
    `insert into oncekey.keys (tenant, id, scope, key, state, answer_status, answer_headers, incarnation, owner, fence, after_failure, created_at, due_at, expires_at, reap_after)
     select $1, gen_random_uuid(), 's', n::text, 'complete', 200, '[]', gen_random_uuid(), gen_random_uuid(), 1, 'rerun', now(), now(), now(), now()
     from generate_series(1, 601) as n`,
    [tenant],
  )
  const left = async () => (await database.pool.query('select from oncekey.keys where tenant = $1', [tenant])).rows.length
  const service = reaper(once, { batch: 600, perSecond: 1 })
  service.start()
  await waitUntil('a batch is reaped', async () => (await left()) === 1)
  await service.stop()
  expect(await left()).toBe(1)
})

test('is not held up by a frozen transaction', async () => {
  const { once, tenant, advance, abandon } = await setup(database)
  await abandon('locked')
  await advance(2 * day)
  const frozen = await database.pool.connect()
  await frozen.query('begin')
  await frozen.query(`update oncekey.keys set reason = 'frozen' where tenant = $1`, [tenant])
  const { parked } = await reaper(once).runOnce()
  await frozen.query('rollback')
  frozen.release()
  expect(parked).toBe(0)
})

test('ends keys in batches', async () => {
  const { once, tenant, advance } = await setup(database)
  const options = (key: string) => ({ tenant, scope: 'pay', key, fingerprint: false, afterFailure: 'rerun', retention: '1h' }) as const
  const fails = () => {
    throw new Error('never again')
  }
  for (const key of ['one', 'two', 'three']) await expect(once.execute(options(key), fails)).rejects.toThrow()
  await advance(day)
  expect((await reaper(once, { batch: 1 }).runOnce()).parked).toBe(3)
})

test('makes a key due again that the sweeper must have overlooked', async () => {
  const { once, tenant, advance, abandon } = await setup(database)
  await abandon('overlooked')
  await advance(2 * day)
  await database.pool.query(`update oncekey.upkeep set frontier = clock_timestamp()`)
  await reaper(once).runOnce()
  const { rows } = await database.pool.query(
    'select due_at > clock_timestamp() - interval $$10 seconds$$ as due from oncekey.keys where tenant = $1',
    [tenant],
  )
  expect(rows).toEqual([{ due: true }])
})

/** Many expired keys, with orders that point at some of them as docs/guide/rows-that-point-at-keys.md has it. */
async function withOrders({ keys, orders, onDelete = 'on delete set null' }: { keys: number; orders: number; onDelete?: string }) {
  const bundle = await setup(database)
  const { tenant } = bundle
  await database.pool.query('drop table if exists orders; delete from oncekey.keys')
  await database.pool.query(`
    create table orders (
      id integer primary key, key_tenant text, key_id uuid,
      foreign key (key_tenant, key_id) references oncekey.keys (tenant, id) ${onDelete}
    );
    create index orders_key on orders (key_tenant, key_id)`)
  onTestFinished(async () => void (await database.pool.query('drop table orders')))
  const execute = (key: string) =>
    // The reaper may have it locked for a moment.
    bundle.once.execute({ tenant, scope: 'pay', key, fingerprint: false, afterFailure: 'rerun', retention: '1h', wait: '2s' }, () =>
      reply(201),
    )
  await Promise.all(Array.from({ length: keys }, (_, number) => execute(`key-${number}`)))
  await database.pool.query(
    `insert into orders select split_part(key, '-', 2)::integer, tenant, id from oncekey.keys where split_part(key, '-', 2)::integer < $1`,
    [orders],
  )
  await bundle.advance(2 * day)
  const left = async () => {
    const { rows } = await database.pool.query('select key from oncekey.keys where tenant = $1 order by key', [tenant])
    return rows.map(({ key }) => key as string)
  }
  return { ...bundle, execute, left }
}

test('reaps around an order that is locked, and other expired keys can be used anew meanwhile', async () => {
  const { once, newOnce, execute, left, advance, eventsOf } = await withOrders({ keys: 600, orders: 3 })
  const locked = await database.pool.connect()
  onTestFinished(() => locked.release())
  await locked.query('begin')
  await locked.query('select from orders where id = 1 for update')

  const startedAt = performance.now()
  const reaping = reaper(once, { batch: 500 }).runOnce()
  const claimsMs: number[] = []
  for (let number = 590; number < 600; number += 1) {
    const before = performance.now()
    expect((await execute(`key-${number}`)).kind).toBe('executed')
    claimsMs.push(performance.now() - before)
  }
  const { reaped } = await reaping
  expect(performance.now() - startedAt).toBeLessThan(5_000)
  expect(Math.max(...claimsMs)).toBeLessThan(2_000)
  const [first, ...others] = await left()
  expect([first, others.length]).toEqual(['key-1', 10])
  expect((reaped ?? 0) + others.length).toBeGreaterThanOrEqual(599)
  expect(eventsOf('worker-failed')).toEqual([])

  // It is not the first that every reaper tries from now on, and comes when its minute is over.
  await locked.query('rollback')
  expect((await reaper(newOnce()).runOnce()).reaped).toBe(0)
  await advance(61_000)
  expect((await reaper(newOnce()).runOnce()).reaped).toBe(1)
})

test('reaps around keys that a foreign key refuses to let go, says so once, and comes back to them', async () => {
  const { once, left, advance, eventsOf } = await withOrders({ keys: 40, orders: 3, onDelete: '' })
  const service = reaper(once, { batch: 25 })
  expect(await service.runOnce()).toEqual({ ...nothing, reaped: 37 })
  expect(await left()).toEqual(['key-0', 'key-1', 'key-2'])
  expect(eventsOf('worker-failed')).toMatchObject([{ worker: 'reaper', error: { code: 'store_failed', cause: { code: '23503' } } }])
  expect(await service.runOnce()).toEqual(nothing)
  expect(eventsOf('worker-failed')).toHaveLength(1)
  await database.pool.query('delete from orders')
  await advance(day)
  expect(await service.runOnce()).toEqual({ ...nothing, reaped: 3 })
})

test('reaps around a key on which a trigger raises an error', async () => {
  const { once, left, eventsOf } = await withOrders({ keys: 10, orders: 0 })
  await database.pool.query(`
    create function keep_key() returns trigger language plpgsql as $$ begin raise exception 'this one stays'; end $$;
    create trigger keep_key before delete on oncekey.keys for each row when (old.key = 'key-7') execute function keep_key()`)
  onTestFinished(async () => void (await database.pool.query('drop function keep_key cascade')))
  expect(await reaper(once).runOnce()).toEqual({ ...nothing, reaped: 9 })
  expect(await left()).toEqual(['key-7'])
  expect(eventsOf('worker-failed')).toMatchObject([{ error: { cause: { message: 'this one stays' } } }])
})

test('reaps 100 free keys behind 500 whose orders are locked, within the limit of one call', async () => {
  const { once, left, advance, eventsOf } = await withOrders({ keys: 600, orders: 500 })
  await database.pool.query(
    `update oncekey.keys set reap_after = reap_after + interval '1 hour' where split_part(key, '-', 2)::integer >= 500`,
  )
  const locked = await database.pool.connect()
  onTestFinished(() => locked.release())
  await locked.query('begin')
  await locked.query('select from orders for update')
  expect(await reaper(once, { batch: 500 }).runOnce()).toEqual({ ...nothing, reaped: 100 })
  expect(await left()).toHaveLength(500)
  expect(eventsOf('worker-failed')).toEqual([])

  await locked.query('rollback')
  await advance(61_000)
  expect(await reaper(once, { batch: 500 }).runOnce()).toEqual({ ...nothing, reaped: 500 })
})

test('a reap that fails hides no key that was refused before, and the keys past their retention are ended', async () => {
  const { once: other, tenant, advance, eventsOf, events, record } = await withOrders({ keys: 10, orders: 3, onDelete: '' })
  const options = { tenant, scope: 'pay', key: 'left', fingerprint: false, afterFailure: 'rerun', retention: '1h' } as const
  await expect(other.execute(options, () => Promise.reject(new Error('no')))).rejects.toThrow()
  await advance(day)
  const connection = fromPg(database.pool)
  let isPostponed = false
  const failing: typeof connection = {
    ...connection,
    async query(text, values, options) {
      if (isPostponed && text.includes('delete from')) throw Object.assign(new Error('read-only'), { code: '25006' })
      isPostponed ||= text.includes('set reap_after')
      return connection.query(text, values, options)
    },
  }
  const once = createOnce({ store: postgresStore(failing), onEvent: (event) => events.push(event) })
  await expect(reaper(once, { batch: 2 }).runOnce()).rejects.toMatchObject({ code: 'store_read_only' })
  expect(eventsOf('worker-failed')).toMatchObject([{ error: { cause: { code: '23503' } } }])
  expect((await record('left'))?.state).toBe('parked')
})

test('throws when it is the database that is in trouble, and postpones no key', async () => {
  const { tenant, advance, abandon } = await setup(database)
  await abandon('k')
  await advance(day)
  const connection = fromPg(database.pool)
  const statements: string[] = []
  const standby: typeof connection = {
    ...connection,
    async query(text, values) {
      statements.push(text)
      if (text.includes('delete from'))
        throw Object.assign(new Error('cannot execute DELETE in a read-only transaction'), { code: '25006' })
      return connection.query(text, values)
    },
  }
  const once = createOnce({ store: postgresStore(standby) })
  await expect(reaper(once).runOnce()).rejects.toMatchObject({ code: 'store_read_only' })
  expect(statements.filter((text) => text.includes('set reap_after'))).toEqual([])
  expect(tenant).toBeTruthy()
})

test.each([false, true])('ends all keys past their retention with eight processes at it, distributed: %s', async (distributed) => {
  const { newOnce, tenant, advance } = await setup(database, { distributed })
  await database.pool.query('delete from oncekey.keys')
  const fails = () => {
    throw new Error('never again')
  }
  const execute = (key: string) =>
    newOnce().execute({ tenant, scope: 'pay', key, fingerprint: false, afterFailure: 'rerun', retention: '1h' }, fails)
  await Promise.all(Array.from({ length: 100 }, (_, number) => execute(`key-${number}`).catch(() => {})))
  await advance(2 * day)
  const counts = await Promise.all(Array.from({ length: 8 }, () => reaper(newOnce(), { batch: 10 }).runOnce()))
  expect(counts.reduce((sum, { parked = 0 }) => sum + parked, 0)).toBe(100)
})

describe.each([false, true])('with distributed: %s', (distributed) => {
  test('leaves a key that was used anew since it was found', async () => {
    const { once, tenant, advance, record } = await setup(database, { distributed })
    const options = { tenant, scope: 'pay', key: 'k', fingerprint: false, afterFailure: 'rerun', retention: '1h' } as const
    await once.execute(options, () => reply(201))
    await advance(day)
    // The reaper has found it, and comes to its row when a claim has begun to use it again.
    const anew = await database.pool.connect()
    await anew.query('begin')
    await anew.query(`update oncekey.keys set expires_at = clock_timestamp() + interval '1 hour' where tenant = $1`, [tenant])
    const reaping = reaper(once).runOnce()
    const waits = async () => (await database.pool.query('select from pg_locks where not granted')).rows.length > 0
    if (distributed) await waitUntil('it waits for the row', waits)
    else await reaping
    await anew.query('commit')
    anew.release()
    await reaping
    expect((await record('k'))?.state).toBe('complete')
  })

  test('reaps with eight processes at it: each key is counted once', async () => {
    const { newOnce, tenant, advance } = await setup(database, { distributed })
    const once = newOnce()
    await advance(2 * day)
    await reaper(once).runOnce()
    const execute = (key: string) =>
      once.execute({ tenant, scope: 'pay', key, fingerprint: false, afterFailure: 'rerun', retention: '1h' }, () => reply(201))
    await Promise.all(Array.from({ length: 200 }, (_, number) => execute(`key-${number}`)))
    await advance(2 * day)
    const counts = await Promise.all(Array.from({ length: 8 }, () => reaper(newOnce(), { batch: 25 }).runOnce()))
    expect(counts.reduce((sum, { reaped = 0 }) => sum + reaped, 0)).toBe(200)
  })
})

test('finds expired keys by their index', async () => {
  const { rows } = await database.pool.query(
    `explain (costs off) select 1 from oncekey.keys as key
     where key.reap_after < 'infinity' and key.reap_after <= (select clock_timestamp()) order by key.reap_after limit 10`,
  )
  expect(JSON.stringify(rows)).toContain('keys_reap_after')
})

test('checks its options', async () => {
  const { once } = await setup(database)
  for (const options of [{ batch: 0 }, { perSecond: 0 }, { perSecond: -1 }]) {
    expect(codeOf(() => reaper(once, options))).toBe('option_invalid')
  }
  expect(codeOf(() => reaper(once, { every: 'daily' as never }))).toBe('duration_invalid')
  expect(codeOf(() => reaper(once, { perSecond: false }))).toBe(null)
})
