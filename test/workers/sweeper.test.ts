import { describe, expect, onTestFinished, test } from 'vitest'
import { createOnce, reply } from '../../src/index.js'
import { fromPg, postgresOperator, postgresStore } from '../../src/stores/postgres/index.js'
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

test('keys of a moment when the clock of the database was ahead wait for it, unless a client or an operator comes', async () => {
  const { once, tenant, abandon, advance, record } = await setup(database)
  await abandon('asked again')
  await abandon('swept by hand')
  // What is left when the clock was an hour ahead at the claim, and heartbeats went on after it was set back.
  await database.pool.query(`update oncekey.keys set due_at = due_at + interval '1 hour' where tenant = $1`, [tenant])
  await advance(leaseMs + 1)
  expect(await sweeper(once).runOnce()).toEqual(nothing)
  const again = { tenant, scope: 'pay', key: 'asked again', fingerprint: false, afterFailure: 'rerun' } as const
  expect((await once.execute(again, () => reply(201))).kind).toBe('executed')
  expect(await postgresOperator(fromPg(database.pool)).keysTakeBack({ note: 'the clock was set back' })).toHaveLength(1)
  expect((await record('swept by hand'))?.state).toBe('pending')
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

test.each(['Asia/Kolkata', 'America/St_Johns'])('sweeps in sessions with another DateStyle, and TimeZone %s', async (zone) => {
  const pool = database.createPool({ options: `-c DateStyle=SQL,DMY -c TimeZone=${zone}` })
  const { once, abandon, advance, record } = await setup(database, { pool })
  await abandon('k')
  await advance(leaseMs + 60_000)
  const service = sweeper(once, { batch: 1 })
  expect(await service.runOnce()).toEqual({ ...nothing, pending: 1 })
  expect((await record('k'))?.state).toBe('pending')
  const { rows } = await database.pool.query(
    `select extract(epoch from clock_timestamp() - frontier)::float8 as behind from oncekey.upkeep where name = 'sweep'`,
  )
  expect(rows[0].behind).toBeGreaterThanOrEqual(10)
  expect(rows[0].behind).toBeLessThan(40)
})

test('reads what is finished once, although a key before it stays locked, and sweeps that key when it can', async () => {
  const { tenant, abandon, advance } = await setup(database)
  await database.pool.query('delete from oncekey.keys')
  await database.pool.query(`update oncekey.upkeep set frontier = '-infinity'`)
  await abandon('locked')
  await advance(leaseMs + 60_000)
  await database.pool.query(`
    insert into oncekey.keys (tenant, id, scope, key, state, answer_status, answer_headers, incarnation, owner, fence, after_failure, created_at, due_at, expires_at, reap_after)
    select 'done', gen_random_uuid(), 's', n::text, 'complete', 200, '[]', gen_random_uuid(), gen_random_uuid(), 1, 'rerun', now(), now() - interval '50 seconds' + n * interval '1 millisecond', now() + interval '1 day', now() + interval '1 day'
    from generate_series(1, 20000) as n`)
  const frozen = await database.pool.connect()
  onTestFinished(() => frozen.release())
  await frozen.query('begin')
  await frozen.query(`select from oncekey.keys where tenant = $1 for update`, [tenant])

  let read = 0
  const connection = fromPg(database.pool)
  const counting = (): typeof connection => ({
    ...connection,
    async query(text, values, often) {
      const rows = await connection.query(text, values, often)
      read += rows.length
      return rows
    },
  })
  const newProcess = () => sweeper(createOnce({ store: postgresStore(counting()) }), { every: '1s' })
  const readBy = async (service: ReturnType<typeof newProcess>) => {
    read = 0
    await database.pool.query(`update oncekey.upkeep set held_until = '-infinity'`)
    const counts = await service.runOnce()
    return { read, counts }
  }
  const service = newProcess()
  expect((await readBy(service)).read).toBeGreaterThan(20_000)
  for (let times = 0; times < 3; times += 1) expect((await readBy(service)).read).toBeLessThan(100)
  const other = newProcess()
  expect((await readBy(other)).read).toBeGreaterThan(20_000)
  expect((await readBy(other)).read).toBeLessThan(100)
  await frozen.query('rollback')
  expect(await readBy(service)).toEqual({ read: expect.any(Number), counts: { ...nothing, pending: 1 } })
  // It has come to the end: another process has nothing to read again.
  expect((await readBy(newProcess())).read).toBeLessThan(100)
})

test('forgets a locked key that was finished meanwhile', async () => {
  const { once, store, tenant, abandon, advance } = await setup(database)
  const lease = await abandon('locked')
  await advance(leaseMs + 60_000)
  const frozen = await database.pool.connect()
  onTestFinished(() => frozen.release())
  await frozen.query('begin')
  await frozen.query(`select from oncekey.keys where tenant = $1 for update`, [tenant])
  const service = sweeper(once)
  expect(await service.runOnce()).toEqual(nothing)
  await frozen.query('rollback')
  const answer = { status: 201, headers: [], body: new Uint8Array() }
  await store.keyFinish({ lease, state: 'complete', answer, retention: { ms: 86_400_000, from: 'creation', floorMs: 0 } })
  expect(await service.runOnce()).toEqual(nothing)
  const { rows } = await database.pool.query(
    `select clock_timestamp() - frontier < interval '40 seconds' as is_past from oncekey.upkeep where name = 'sweep'`,
  )
  expect(rows).toEqual([{ is_past: true }])
})

test('finds every abandoned key when more are locked than it remembers', async () => {
  const { once, tenant, advance } = await setup(database)
  await database.pool.query(
    `insert into oncekey.keys (tenant, id, scope, key, state, incarnation, owner, fence, after_failure, created_at, locked_until, due_at, expires_at, reap_after)
     select $1, gen_random_uuid(), 'pay', n::text, 'processing', gen_random_uuid(), gen_random_uuid(), 1, 'rerun', now(), now(), now() + n * interval '1 millisecond', now() + interval '1 day', now() + interval '1 day'
     from generate_series(1, 1500) as n`,
    [tenant],
  )
  await advance(60_000)
  const frozen = await database.pool.connect()
  onTestFinished(() => frozen.release())
  await frozen.query('begin')
  await frozen.query(`select from oncekey.keys where tenant = $1 and key::integer <= 1200 for update`, [tenant])
  const service = sweeper(once, { batch: 200 })
  expect(await service.runOnce()).toEqual({ ...nothing, pending: 300 })
  expect(await service.runOnce()).toEqual(nothing)
  await frozen.query('rollback')
  expect(await service.runOnce()).toEqual({ ...nothing, pending: 1200 })
})

test('works again after its table was emptied', async () => {
  const { once, abandon, advance, record } = await setup(database)
  await abandon('k')
  await advance(leaseMs + 1)
  await database.pool.query('delete from oncekey.upkeep')
  expect(await sweeper(once).runOnce()).toEqual({ ...nothing, pending: 1 })
  expect((await record('k'))?.state).toBe('pending')
})

test('leaves the sweep to another time when the row of its turn is locked', async () => {
  const { once, abandon, advance } = await setup(database)
  await abandon('k')
  await advance(leaseMs + 1)
  const frozen = await database.pool.connect()
  onTestFinished(() => frozen.release())
  await frozen.query('begin')
  await frozen.query('select from oncekey.upkeep for update')
  expect(await sweeper(once).runOnce()).toEqual(nothing)
  await frozen.query('rollback')
  expect(await sweeper(once).runOnce()).toEqual({ ...nothing, pending: 1 })
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
      if (/order by key.due_at limit \$3/.test(text) || /with held/.test(text)) {
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
