import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { type Clock, systemClock, systemRandom } from '../../src/core/clock.js'
import { OncekeyError, type OutboxStore } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { momentOf, momentText } from '../../src/stores/postgres/queries/moment.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { down, nothing, setup } from './setup.js'

const database = useDatabase()
const minute = 60_000

/** One job in each of many groups. */
const insertGroups = (tenant: string, { from, to, due }: { from: number; to: number; due: string }) =>
  database.pool.query(
    `insert into oncekey.jobs (tenant, id, key_id, incarnation, name, payload, staged_at, due_at, job_group)
     select $1, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'mail', n::text, now(), now() + $2::interval, 'g' || lpad(n::text, 6, '0')
     from generate_series($3::integer, $4::integer) as n`,
    [tenant, due, from, to],
  )

test('after an hour in which the receiver is down, all is delivered, in order per group, and not all at once', async () => {
  const { stage, newRelay, got, advance, events } = await setup(database)
  for (let n = 0; n < 4; n += 1) {
    await stage(...Array.from({ length: 10 }, (_, group) => ({ payload: n, options: { group: `g${group}` } })))
    await stage(...Array.from({ length: 15 }, () => ({ payload: n })))
  }
  let isDown = true
  let tried = 0
  let atOnce = 0
  let mostAtOnce = 0
  const service = newRelay({
    concurrency: 5,
    async work() {
      tried += 1
      atOnce += 1
      mostAtOnce = Math.max(mostAtOnce, atOnce)
      await new Promise((resolve) => setImmediate(resolve))
      atOnce -= 1
      return isDown ? down() : undefined
    },
  })
  for (let passed = 0; passed < 60; passed += 5) {
    await service.runOnce()
    await advance(5 * minute)
  }
  expect(got).toEqual([])
  // Sixty that are free and ten heads: what stands behind a head was not even tried.
  expect(tried).toBeLessThan(70 * 25)
  expect(events.filter(({ type }) => type === 'job-dead')).toEqual([])

  isDown = false
  const { rows } = await database.pool.query(`
    select stddev(extract(epoch from due_at))::float8 as spread, count(*) filter (where due_at > clock_timestamp())::integer as later
    from oncekey.jobs where attempts > 0`)
  // Their next attempts lie minutes apart, though all of them failed in the same moments.
  expect(rows[0].spread).toBeGreaterThan(60)
  expect(rows[0].later).toBeGreaterThan(20)
  for (let passed = 0; passed < 60 && got.length < 100; passed += 1) {
    await service.runOnce()
    await advance(minute)
  }
  expect(got).toHaveLength(100)
  for (let group = 0; group < 10; group += 1) {
    expect(got.filter((job) => job.group === `g${group}`).map(({ payload }) => payload)).toEqual([0, 1, 2, 3])
  }
  expect(mostAtOnce).toBeLessThanOrEqual(5)
})

test('what was delivered while the store was away is stored when it is back, and not delivered again', async () => {
  const store = postgresStore(fromPg(database.pool))
  let failures = 0
  const outbox: OutboxStore = {
    ...store.outbox,
    async jobsSettle(settle) {
      failures += 1
      if (failures <= 3) throw new OncekeyError('store_unavailable', 'away')
      return store.outbox.jobsSettle(settle)
    },
  }
  const { stage, newRelay, got, rows } = await setup(database, { store: { ...store, outbox } })
  await stage({ payload: 1 })
  expect(await newRelay().runOnce()).toEqual({ ...nothing, delivered: 1 })
  expect([got.length, failures, await rows()]).toEqual([1, 4, []])
})

test('goes on when the database is back', async () => {
  const nowhere = new URL(database.url)
  nowhere.port = '1'
  const store = postgresStore(fromPg(database.pool))
  const away = postgresStore(fromPg(database.createPool({ connectionString: nowhere.href }))).outbox
  let isAway = true
  const outbox: OutboxStore = {
    jobsTake: (take) => (isAway ? away : store.outbox).jobsTake(take),
    jobsRead: (wanted) => (isAway ? away : store.outbox).jobsRead(wanted),
    jobsSettle: (settle) => (isAway ? away : store.outbox).jobsSettle(settle),
    jobsDead: (wanted) => store.outbox.jobsDead(wanted),
    jobsResolve: (wanted) => store.outbox.jobsResolve(wanted),
  }
  const { stage, newRelay, got, eventsOf } = await setup(database, { store: { ...store, outbox } })
  const service = newRelay({ every: 50 })
  service.start()
  await stage({ payload: 1 })
  await waitUntil('it cannot look', () => eventsOf('worker-failed').length > 1)
  expect(eventsOf('worker-failed')[0]).toMatchObject({ worker: 'relay', error: { code: 'store_unavailable' } })
  isAway = false
  await waitUntil('it is delivered', () => got.length === 1)
  await service.stop()
})

test('holds no memory of what it has delivered', async () => {
  const { newRelay, once } = await setup(database, { onEvent: () => {} })
  setFlagsFromString('--expose-gc')
  const gc = runInNewContext('gc') as () => void
  const service = newRelay({ sink: () => {} })
  const round = async () => {
    await database.pool.query(
      `insert into oncekey.jobs (tenant, id, key_id, incarnation, name, payload, staged_at, due_at, job_group)
       select 't', gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'mail', '"' || repeat('x', 1000) || '"', now(), now(),
              case when n % 10 = 0 then n::text end
       from generate_series(1, 2000) as n`,
    )
    expect(await service.runOnce()).toEqual({ ...nothing, delivered: 2_000 })
    gc()
    return process.memoryUsage().heapUsed
  }
  await round()
  const first = await round()
  await round()
  await round()
  // The payloads alone of four thousand jobs are 4 MB.
  expect((await round()) - first).toBeLessThan(2 * 1024 * 1024)
  expect(once.internals.onStaged.size).toBe(0)
})

test('finds every one of thousands of groups, also when most of them wait', async () => {
  const { newRelay, got, tenant } = await setup(database)
  await insertGroups(tenant, { from: 1, to: 2_500, due: '1 hour' })
  await insertGroups(tenant, { from: 2_501, to: 2_600, due: '0' })
  expect(await newRelay().runOnce()).toEqual({ ...nothing, delivered: 100 })
  expect(new Set(got.map(({ group }) => group)).size).toBe(100)
})

test('rests longer and longer while very many groups wait, and short only within a round over them', async () => {
  const rests: number[] = []
  const clock: Clock = {
    ...systemClock,
    schedule(task, delayMs, options) {
      // Limits of calls of the store are no rests.
      if (delayMs > 200) return systemClock.schedule(task, delayMs, options)
      rests.push(delayMs)
      const immediate = setImmediate(task)
      return () => clearImmediate(immediate)
    },
  }
  const { newRelay, tenant } = await setup(database, { clock, random: { ...systemRandom, fraction: () => 1 } })
  await insertGroups(tenant, { from: 1, to: 2_500, due: '1 hour' })
  const service = newRelay({ every: 200 })
  service.start()
  await waitUntil('it has been round six times', () => rests.length >= 18)
  await service.stop()
  const round = (idleMs: number) => [20, 20, idleMs]
  expect(rests.slice(0, 18)).toEqual([40, 80, 160, 200, 200, 200].flatMap(round))
})

test('a take reads as little after very many deliveries as before, though no vacuum could clean up behind them', async () => {
  const { tenant } = await setup(database)
  // An old snapshot: nothing that is deleted from now on can be forgotten.
  const old = await database.pool.connect()
  await old.query('begin isolation level repeatable read')
  await old.query('select 1')
  await database.pool.query(
    `insert into oncekey.jobs (tenant, id, key_id, incarnation, name, payload, staged_at, due_at)
     select $1, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'mail', '1', time, time
     from generate_series(1, 20000) as n, lateral (select clock_timestamp() - interval '1 minute' as time where n > 0) as clock`,
    [tenant],
  )
  await database.pool.query('delete from oncekey.jobs')
  let pages = 0
  const connection = fromPg(database.pool)
  const query: typeof connection.query = async (text, values) => {
    if (text.includes('with recursive')) {
      const { rows } = await database.pool.query(`explain (analyze, buffers, format json) ${text}`, [...values])
      const { Plan } = rows[0]['QUERY PLAN'][0]
      pages = Plan['Shared Hit Blocks'] + Plan['Shared Read Blocks']
    }
    return connection.query(text, values)
  }
  const { outbox } = postgresStore({ ...connection, query })
  const read = async (from?: string) => {
    const { lookedUpTo } = await outbox.jobsTake({ token: crypto.randomUUID(), leaseMs: 1_000, limit: 100, heldByDead: true, from })
    return { pages, lookedUpTo: lookedUpTo as string }
  }
  const everywhere = await read()
  const onward = await read(everywhere.lookedUpTo)
  await old.query('rollback')
  old.release()
  expect(everywhere.pages).toBeGreaterThan(200)
  expect(onward.pages).toBeLessThan(20)
})

test('a take goes on where the one before ended, however the sessions of both write their dates', async () => {
  const { stage } = await setup(database)
  const takerWith = (style: string, zone: string) => {
    const { outbox } = postgresStore(fromPg(database.createPool({ options: `-c DateStyle=${style} -c TimeZone=${zone}` })))
    return async (from?: string) => {
      const taken = await outbox.jobsTake({ token: crypto.randomUUID(), leaseMs: 60_000, limit: 3, heldByDead: true, from })
      return { from: taken.lookedUpTo ?? undefined, payloads: taken.jobs.map(({ payload }) => payload) }
    }
  }
  // To one of them IST is the time of India, to the other that of Israel.
  const [india, elsewhere] = [takerWith('SQL,DMY', 'Asia/Kolkata'), takerWith('SQL,DMY', 'UTC')]
  await stage(...[1, 2, 3, 4].map((payload) => ({ payload })))
  const first = await india()
  expect(first.payloads).toEqual(['1', '2', '3'])
  const second = await elsewhere(first.from)
  expect(second.payloads).toEqual(['4'])
  const third = await india(second.from)
  await stage({ payload: 5 })
  expect((await elsewhere(third.from)).payloads).toEqual(['5'])
})

test.each(['infinity', '-infinity', '2026-11-03 04:05:06.789012+00', null])('a moment survives its text: %s', async (moment) => {
  const pool = database.createPool({ options: '-c DateStyle=SQL,DMY -c TimeZone=Asia/Kolkata' })
  const [text, back] = [momentText('$1::text::timestamptz'), momentOf('$2')]
  const { rows } = await pool.query(`select ${text} as text`, [moment])
  const { rows: again } = await pool.query(`select ${back} is not distinct from $1::text::timestamptz as same`, [moment, rows[0].text])
  expect(again[0].same).toBe(true)
})
