import { describe, expect, test } from 'vitest'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { sweeper } from '../../src/workers/index.js'
import { codeOf } from '../support/code-of.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { leaseMs, setup } from './setup.js'

const database = useDatabase()

const nothing = { pending: 0, failed: 0, parked: 0 }

test('takes keys back whose holder is gone, counts them, and says of each why and at which fence', async () => {
  const { once, tenant, abandon, advance, eventsOf, record } = await setup(database)
  await abandon('rerun')
  await abandon('store', { afterFailure: 'store' })
  await abandon('park', { afterFailure: 'park' })
  await advance(leaseMs + 1)
  expect(await sweeper(once).runOnce()).toEqual({ pending: 1, failed: 1, parked: 1 })
  const reason = 'the holder stopped without a word'
  const swept = { tenant, scope: 'pay', type: 'swept', reason }
  expect(eventsOf('swept')).toHaveLength(3)
  expect(eventsOf('swept')).toEqual(
    expect.arrayContaining([
      { ...swept, key: 'rerun', fence: 2, to: 'pending' },
      { ...swept, key: 'store', fence: 2, to: 'failed' },
      { ...swept, key: 'park', fence: 2, to: 'parked' },
    ]),
  )
  expect((await record('rerun'))?.reason).toBe(reason)
})

test('tells what it did, and that it failed', async () => {
  const pool = database.createPool()
  const { once, eventsOf } = await setup(database, { pool, storeTimeout: 1_000 })
  await sweeper(once).runOnce()
  expect(eventsOf('worker-ran')).toEqual([{ type: 'worker-ran', worker: 'sweeper', counts: nothing, durationMs: expect.any(Number) }])
  await pool.end()
  const service = sweeper(once, { every: '10ms' })
  service.start()
  await waitUntil('it has failed twice, and goes on', () => eventsOf('worker-failed').length >= 2)
  await service.stop()
  expect(eventsOf('worker-failed')[0]).toMatchObject({ worker: 'sweeper', error: { code: 'store_unavailable' } })
})

test('notes it in the trail, where one is kept', async () => {
  const { once, tenant, abandon, advance } = await setup(database, { audit: true })
  await abandon('trail')
  await advance(leaseMs + 1)
  await sweeper(once).runOnce()
  const trail = await once.history({ tenant, scope: 'pay', key: 'trail' })
  expect(trail.map(({ what, fence, detail }) => [what, fence, detail])).toContainEqual(['swept', 2, 'the holder stopped without a word'])
})

test('lets one process sweep at a time, and each key be swept once, whoever does it', async () => {
  const { newOnce, tenant, abandon, advance, eventsOf } = await setup(database)
  await Promise.all(Array.from({ length: 200 }, (_, number) => abandon(`key-${number}`)))
  await advance(leaseMs + 1)
  const counts = await Promise.all(Array.from({ length: 8 }, () => sweeper(newOnce(), { batch: 17 }).runOnce()))
  expect(counts.filter(({ pending }) => (pending ?? 0) > 0)).toEqual([{ pending: 200, failed: 0, parked: 0 }])
  const swept = eventsOf('swept').filter((event) => 'tenant' in event && event.tenant === tenant)
  expect(new Set(swept.map((event) => 'key' in event && event.key)).size).toBe(200)
  expect(swept).toHaveLength(200)
})

describe.each([false, true])('with distributed: %s', (distributed) => {
  test('looks at each key once: what is finished is passed over for good', async () => {
    const { once, store, abandon, advance } = await setup(database, { distributed })
    for (let number = 0; number < 30; number += 1) {
      const lease = await abandon(`done-${number}`)
      const answer = { status: 201, headers: [], body: new Uint8Array() }
      await store.keyFinish({ lease, state: 'complete', answer, retention: { ms: 86_400_000, from: 'creation', floorMs: 0 } })
    }
    await advance(leaseMs + 60_000)
    await sweeper(once).runOnce()
    const { rows } = await database.pool.query(`
      select count(*)::integer as left from oncekey.keys, oncekey.upkeep where upkeep.name = 'sweep' and keys.due_at >= upkeep.frontier`)
    expect(rows[0].left).toBe(0)
  })

  test('sweeps in the form for those tables, too', async () => {
    const { once, abandon, advance, record } = await setup(database, { distributed })
    await abandon('k')
    await advance(leaseMs + 1)
    expect(await sweeper(once).runOnce()).toEqual({ ...nothing, pending: 1 })
    expect((await record('k'))?.state).toBe('pending')
  })
})

test('passes over a key that a frozen transaction has locked, and comes back to it', async () => {
  const { once, tenant, abandon, advance, record } = await setup(database)
  await abandon('locked')
  await abandon('free')
  await advance(leaseMs + 60_000)
  const frozen = await database.pool.connect()
  await frozen.query('begin')
  await frozen.query(`update oncekey.keys set reason = 'frozen' where tenant = $1 and key = 'locked'`, [tenant])
  const service = sweeper(once)
  expect(await service.runOnce()).toEqual({ ...nothing, pending: 1 })
  expect((await record('free'))?.state).toBe('pending')
  await frozen.query('rollback')
  frozen.release()
  expect(await service.runOnce()).toEqual({ ...nothing, pending: 1 })
  expect((await record('locked'))?.state).toBe('pending')
})

test('comes back to a key that was locked on the first page, after pages on which all was well', async () => {
  const { once, tenant, abandon, advance, record } = await setup(database)
  await abandon('locked')
  for (let number = 0; number < 9; number += 1) await abandon(`free-${number}`)
  await advance(leaseMs + 60_000)
  const frozen = await database.pool.connect()
  await frozen.query('begin')
  await frozen.query(`update oncekey.keys set reason = 'frozen' where tenant = $1 and key = 'locked'`, [tenant])
  const service = sweeper(once, { batch: 3 })
  expect(await service.runOnce()).toEqual({ ...nothing, pending: 9 })
  await frozen.query('rollback')
  frozen.release()
  expect(await service.runOnce()).toEqual({ ...nothing, pending: 1 })
  expect((await record('locked'))?.state).toBe('pending')
})

test.each([1, 2, 7])('gets past keys that are all due at one moment, %i at a time', async (batch) => {
  const { once, store, tenant, abandon, advance } = await setup(database)
  const answer = { status: 201, headers: [], body: new Uint8Array() }
  for (let number = 0; number < 14; number += 1) {
    const lease = await abandon(`key-${number}`)
    const retention = { ms: 86_400_000, from: 'creation', floorMs: 0 } as const
    if (number % 2 === 0) await store.keyFinish({ lease, state: 'complete', answer, retention })
  }
  await advance(leaseMs + 60_000)
  await database.pool.query(
    `update oncekey.keys set due_at = clock.time from (select now() - interval '1 minute' as time) as clock where tenant = $1`,
    [tenant],
  )
  await abandon('later')
  await database.pool.query(`update oncekey.keys set due_at = now(), locked_until = now() where tenant = $1 and key = 'later'`, [tenant])
  expect(await sweeper(once, { batch }).runOnce()).toEqual({ ...nothing, pending: 8 })
  const { rows } = await database.pool.query(
    `select now() - frontier < interval '50 seconds' as is_past from oncekey.upkeep where name = 'sweep'`,
  )
  expect(rows).toEqual([{ is_past: true }])
})

test('finds what is due after the clock of the database was set back', async () => {
  const { once, abandon, advance } = await setup(database)
  await database.pool.query(`update oncekey.upkeep set frontier = clock_timestamp() + interval '1 hour'`)
  await sweeper(once).runOnce()
  await abandon('k')
  await advance(leaseMs + 1)
  expect(await sweeper(once).runOnce()).toEqual({ ...nothing, pending: 1 })
})

test('sees a claim that was committed long after its own time', async () => {
  const { once, tenant } = await setup(database)
  const late = await database.pool.connect()
  await late.query('begin')
  await late.query(
    `insert into oncekey.keys (tenant, id, scope, key, state, incarnation, owner, fence, after_failure, created_at, locked_until, due_at, expires_at, reap_after)
     select $1, gen_random_uuid(), 'pay', 'late', 'processing', gen_random_uuid(), gen_random_uuid(), 1, 'rerun', now, now, now, now + interval '1 day', now + interval '1 day'
     from (select clock_timestamp() - interval '5 seconds' as now) as clock`,
    [tenant],
  )
  const service = sweeper(once)
  expect(await service.runOnce()).toEqual(nothing)
  await late.query('commit')
  late.release()
  expect(await service.runOnce()).toEqual({ ...nothing, pending: 1 })
  expect((await database.pool.query(`select state from oncekey.keys where tenant = $1`, [tenant])).rows).toEqual([{ state: 'pending' }])
})

test('comes through more keys of the same moment than fit a page, as a migration leaves them', async () => {
  const { once, abandon, advance, tenant } = await setup(database)
  await Promise.all(Array.from({ length: 60 }, (_, number) => abandon(`key-${number}`)))
  await advance(leaseMs + 60_000)
  await database.pool.query(`update oncekey.keys set due_at = '-infinity' where tenant = $1`, [tenant])
  await database.pool.query(`update oncekey.upkeep set frontier = '-infinity'`)
  expect(await sweeper(once, { batch: 5 }).runOnce()).toEqual({ ...nothing, pending: 60 })
})

test('finds what is due by its index, also in a table that was never analysed', async () => {
  await database.pool.query(`
    insert into oncekey.keys (tenant, id, scope, key, state, answer_status, answer_headers, incarnation, owner, fence, after_failure, created_at, due_at, expires_at, reap_after)
    select 'many', gen_random_uuid(), 's', n::text, 'complete', 200, '[]', gen_random_uuid(), gen_random_uuid(), 1, 'rerun', now(), now() - interval '1 day', now() + interval '1 day', now() + interval '1 day'
    from generate_series(1, 20000) as n`)
  const connection = fromPg(database.pool)
  const plans: string[] = []
  const explained: typeof connection = {
    ...connection,
    async query(text, values) {
      if (/order by key.due_at limit \$3/.test(text) || /with clock/.test(text)) {
        plans.push(JSON.stringify(await connection.query(`explain ${text}`, values)))
      }
      return connection.query(text, values)
    },
  }
  const { abandon, advance } = await setup(database)
  await abandon('one')
  await advance(leaseMs + 60_000)
  await postgresStore(explained).upkeep.keysSweep({ holder: crypto.randomUUID(), turnMs: 1, limit: 50_000 })
  expect(plans).toHaveLength(2)
  expect(plans[0]).toContain('keys_due_at')
  expect(plans[1]).toContain('keys_pkey')
  for (const plan of plans) expect(plan).not.toContain('Seq Scan on keys')
})

test('needs an instance, a duration, and a whole number', async () => {
  const { once } = await setup(database)
  expect(codeOf(() => sweeper(undefined as never))).toBe('option_invalid')
  expect(codeOf(() => sweeper(once, { every: 'soon' as never }))).toBe('duration_invalid')
  for (const batch of [0, -1, 1.5, '10' as never]) expect(codeOf(() => sweeper(once, { batch }))).toBe('option_invalid')
})
