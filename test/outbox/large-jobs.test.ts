import { randomBytes } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { startChild } from '../support/child.js'
import { memoryMeter } from '../support/memory-meter.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { nothing, setup } from './setup.js'

const database = useDatabase()
const long = process.env.ONCEKEY_LONG === '1'
const megabyte = 1_048_576

/** Texts of so many bytes each, as JSON. */
const insertTexts = (tenant: string, sizes: readonly number[]) =>
  database.pool.query(
    `insert into oncekey.jobs (tenant, id, key_id, incarnation, name, payload, staged_at, due_at)
     select $1, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'mail', '"' || repeat('x', size - 2) || '"', now(), now()
     from unnest($2::integer[]) as size`,
    [tenant, sizes],
  )

test.each([false, true])(
  'a take returns small payloads, 64 KiB in all, and the others are read as long as it holds them (distributed: %s)',
  async (distributed) => {
    const { tenant, advance } = await setup(database, { distributed })
    const { outbox } = postgresStore(fromPg(database.pool), { distributed })
    await insertTexts(tenant, [megabyte, 30_000, 100, 30_000, 30_000])
    const token = crypto.randomUUID()
    const { jobs } = await outbox.jobsTake({ token, leaseMs: 1_000, limit: 100, heldByDead: true })
    expect(
      jobs.map(({ payload, payloadBytes }) => [payloadBytes, payload?.length ?? null]).sort((a, b) => Number(a[0]) - Number(b[0])),
    ).toEqual(
      [
        [100, 100],
        [30_000, 30_000],
        [30_000, 30_000],
        [30_000, null],
        [megabyte, null],
      ].sort((a, b) => Number(a[0]) - Number(b[0])),
    )
    const wanted = jobs.filter(({ payload }) => payload === null).map(({ id }) => ({ tenant, id, token }))
    const sizesOf = async () => (await outbox.jobsRead({ jobs: wanted })).map((found) => found?.payload.length ?? null)
    expect((await sizesOf()).sort()).toEqual([megabyte, 30_000].sort())
    await advance(1_000)
    await outbox.jobsTake({ token: crypto.randomUUID(), leaseMs: 1_000, limit: 100, heldByDead: true })
    expect(await sizesOf()).toEqual([null, null])
  },
)

test('a relay that is frozen while it takes large jobs keeps them for its lease, and no longer', async () => {
  const { tenant, newRelay, got, advance, rows } = await setup(database)
  await insertTexts(
    tenant,
    Array.from({ length: 20 }, () => megabyte),
  )
  const lock = await database.pool.connect()
  onTestFinished(() => lock.release(true))
  await lock.query('begin; lock table oncekey.jobs in access exclusive mode')
  const frozen = startChild('outbox/relayer.ts', { url: database.url, leaseMs: 600_000, asks: true })
  await frozen.message()
  await waitUntil('its take waits for the table', async () => {
    const { rows } = await database.pool.query(`
      select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%with recursive%'`)
    return rows.length > 0
  })
  frozen.signal('SIGSTOP')
  await lock.query('commit')
  await waitUntil('its take is committed', async () => (await rows()).every(({ token }) => token !== null))
  expect(await newRelay().runOnce()).toEqual(nothing)
  await advance(600_000)
  expect(await newRelay().runOnce()).toEqual({ ...nothing, delivered: 20 })
  expect(new Set(got.map(({ id, attempt }) => `${id} ${attempt}`)).size).toBe(20)
})

const count = long ? 700 : 120

test(`${count} jobs of 2 MB are delivered with less than 200 MB of memory`, { timeout: 600_000 }, async () => {
  const { tenant, newRelay, advance } = await setup(database, { onEvent: () => {} })
  await insertTexts(
    tenant,
    Array.from({ length: count }, () => 2 * megabyte),
  )
  const used = memoryMeter()
  const before = used()
  let delivered = 0
  let most = 0
  const sink = async ({ payload }: { payload: unknown }) => {
    expect((payload as string).length).toBe(2 * megabyte - 2)
    delivered += 1
    if (delivered % 20 === 0) most = Math.max(most, used() - before)
  }
  const service = newRelay({ sink })
  await service.runOnce()
  // A slow machine may have given some back, to take them again.
  await advance(1)
  await service.runOnce()
  expect(delivered).toBe(count)
  expect(most).toBeLessThan(200 * megabyte)
})

test('a relay has no more payloads in hand than maxBytes, and one that is larger alone', async () => {
  const { tenant, newRelay } = await setup(database)
  await insertTexts(tenant, [400_000, ...Array.from({ length: 30 }, () => 90_000), 400_000, ...Array.from({ length: 30 }, () => 90_000)])
  let [inHand, most, larger] = [0, 0, 0]
  const service = newRelay({
    maxBytes: 300_000,
    async work({ payload }) {
      const bytes = (payload as string).length + 2
      inHand += bytes
      if (bytes === 400_000) {
        larger += 1
        expect(inHand).toBe(400_000)
      } else most = Math.max(most, inHand)
      for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve))
      inHand -= bytes
    },
  })
  expect(await service.runOnce()).toEqual({ ...nothing, delivered: 62 })
  expect([larger, most]).toEqual([2, 270_000])
})

test('a payload that cannot be read fails alone', async () => {
  const store = postgresStore(fromPg(database.pool))
  const jobsRead: typeof store.outbox.jobsRead = async ({ jobs }) => {
    const read = await store.outbox.jobsRead({ jobs })
    if (read.some((found) => found?.payload.length === 100_002)) throw new Error('missing chunk number 0 for toast value')
    return read
  }
  const { tenant, newRelay, rows } = await setup(database, { store: { ...store, outbox: { ...store.outbox, jobsRead } } })
  await insertTexts(tenant, [100_000, 100_001, 100_002, 100_003])
  expect(await newRelay({ backoff: { first: '1h' } }).runOnce()).toEqual({ ...nothing, delivered: 3, failed: 1 })
  expect((await rows()).map(({ last_error }) => last_error)).toEqual(['missing chunk number 0 for toast value'])
})

test('a large payload that is encrypted is opened when it is read', async () => {
  const encryption = { keys: [{ id: 'k1', key: randomBytes(32) }] }
  const { stage, newRelay, payloads, rows } = await setup(database, { encryption })
  const text = 'ü'.repeat(100_000)
  await stage({ payload: text }, { payload: 'small' })
  expect((await rows()).some(({ payload }) => payload.includes('ü') || payload.includes('small'))).toBe(false)
  expect(await newRelay().runOnce()).toEqual({ ...nothing, delivered: 2 })
  expect(payloads().toSorted()).toEqual(['small', text])
})
