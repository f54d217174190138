import { expect, onTestFinished, test } from 'vitest'
import { OncekeyError, type OutboxStore } from '../../src/index.js'
import { type DeadJob, deadLetters } from '../../src/outbox/index.js'
import { fromPg, migrate, postgresOperator, postgresStore } from '../../src/stores/postgres/index.js'
import { type TestDatabase, useDatabase } from '../support/postgres/database.js'
import { databaseName } from '../support/postgres/template.js'
import { waitUntil } from '../support/wait-until.js'
import { down, nothing, setup } from './setup.js'

const database = useDatabase()
const final = { error: new Error('410'), final: true }

/** A database that can hold no more than Latin letters. */
async function latinDatabase(): Promise<TestDatabase> {
  const name = databaseName('test')
  await database.pool.query(`create database ${name} encoding 'LATIN1' template template0 locale 'C'`)
  const url = new URL(database.url)
  url.pathname = `/${name}`
  const pool = database.createPool({ connectionString: url.href })
  onTestFinished(async () => {
    await pool.end()
    await database.pool.query(`drop database ${name} with (force)`)
  })
  await migrate(fromPg(pool))
  return { ...database, url: url.href, pool }
}

/** Another session, that keeps a job's row locked until it is told to let go. */
async function lockJob(payload: number): Promise<() => Promise<void>> {
  const client = await database.pool.connect()
  let isOver = false
  const end = async () => {
    if (isOver) return
    isOver = true
    await client.query('rollback')
    client.release()
  }
  onTestFinished(end)
  await client.query('begin')
  await client.query('select from oncekey.jobs where payload = $1 for update', [String(payload)])
  return end
}

test('a locked job holds up the settling of no other, and is settled when it is free', async () => {
  const { stage, newRelay, rows, payloads } = await setup(database)
  await stage(...Array.from({ length: 6 }, (_, payload) => ({ payload })))
  const locks: (() => Promise<void>)[] = []
  let open = () => {}
  const gate = new Promise<void>((resolve) => {
    open = resolve
  })
  let begun = 0
  const running = newRelay({
    async work({ payload }) {
      if (payload === 2 || payload === 3) locks.push(await lockJob(payload))
      begun += 1
      // They end in one turn, and are settled in one statement.
      if (begun === 6) open()
      await gate
      if (payload === 3 || payload === 4) return { ...down(), retryAfterMs: 3_600_000 }
    },
  }).runOnce()
  const unsettled = async () => (await rows()).filter(({ token }) => token !== null).map(({ payload }) => payload)
  await waitUntil('only the locked ones are not settled', async () => (await unsettled()).join() === '2,3')
  for (const unlock of locks) await unlock()
  expect(await running).toEqual({ ...nothing, delivered: 4, failed: 2 })
  expect((await rows()).map(({ payload, token, last_error }) => [payload, token, last_error])).toEqual([
    ['3', null, 'the receiver is down'],
    ['4', null, 'the receiver is down'],
  ])
  expect(payloads()).toHaveLength(4)
})

test('a job that stays locked until its lease is over is told as not settled, and delivered once more when it is free', async () => {
  const { stage, newRelay, advance, eventsOf, got } = await setup(database)
  await stage({ payload: 1 }, { payload: 2 })
  let unlock = async () => {}
  const work = async ({ payload }: { payload: unknown }) => {
    if (payload === 1) unlock = await lockJob(1)
  }
  expect(await newRelay({ lease: '500ms', work }).runOnce()).toEqual({ ...nothing, delivered: 1, unsettled: 1 })
  expect(eventsOf('job-unsettled')).toMatchObject([{ error: { code: 'lease_lost', message: expect.stringContaining('locked') } }])
  await unlock()
  await advance(1_000)
  expect(await newRelay().runOnce()).toEqual({ ...nothing, delivered: 1 })
  expect(got.map(({ payload }) => payload).toSorted()).toEqual([1, 1, 2])
})

test('an error that the encoding of the database cannot hold is stored in ASCII, and its neighbours are settled', async () => {
  const latin = await latinDatabase()
  const { stage, newRelay, rows } = await setup(latin)
  await stage(...Array.from({ length: 6 }, (_, payload) => ({ payload })))
  const errors: Record<number, string> = { 2: 'price in € – 日本', 3: 'é fits' }
  const work = ({ payload }: { payload: unknown }) => {
    const error = errors[payload as number]
    return error === undefined ? undefined : { error, retryAfterMs: 3_600_000 }
  }
  const service = newRelay({ work })
  expect(await service.runOnce()).toEqual({ ...nothing, delivered: 4, failed: 2 })
  expect(await service.runOnce()).toEqual(nothing)
  expect((await rows()).map(({ last_error }) => last_error)).toEqual(['price in \\u20ac \\u2013 \\u65e5\\u672c', 'é fits'])
})

test('dead letters that are locked are left alone, and the others are retried or discarded', async () => {
  const { once, stage, newRelay, rows } = await setup(database)
  await stage(...[1, 2, 3, 4].map((payload) => ({ payload })))
  await newRelay({ work: () => final }).runOnce()
  const unlock = await lockJob(1)
  const { rows: ids } = await database.pool.query('select id from oncekey.jobs order by payload')
  const letters = await deadLetters(once).list()
  type Four = [DeadJob, DeadJob, DeadJob, DeadJob]
  const [locked, second, third, fourth] = ids.map(({ id }) => letters.find((letter) => letter.id === id)) as Four
  // It would wait for the lock, which is not given back before.
  const operator = postgresOperator(fromPg(database.pool))
  expect(await deadLetters(once).retry([locked, second])).toBe(1)
  expect(await deadLetters(once).discard([locked, third])).toBe(1)
  expect(await operator.jobsResolve([locked, fourth], { as: 'discard', note: 'by a test' })).toBe(1)
  expect(await operator.jobsResolve([locked], { as: 'retry', note: 'by a test' })).toBe(0)
  await unlock()
  expect((await rows()).map(({ payload, dead_at }) => [payload, dead_at === null])).toEqual([
    ['1', false],
    ['2', true],
  ])
  expect(await operator.jobsResolve([locked], { as: 'retry', note: 'by a test' })).toBe(1)
})

test('stop() ends soon after the lease, while every call to the store times out', async () => {
  const store = postgresStore(fromPg(database.pool))
  let isHanging = false
  const guarded = async <T>(verb: () => Promise<T>): Promise<T> => {
    if (!isHanging) return verb()
    await new Promise((resolve) => setTimeout(resolve, 100))
    throw new OncekeyError('store_timeout', 'no answer')
  }
  const outbox: OutboxStore = {
    ...store.outbox,
    jobsTake: (take) => guarded(() => store.outbox.jobsTake(take)),
    jobsRead: (read) => guarded(() => store.outbox.jobsRead(read)),
    jobsSettle: (settle) => guarded(() => store.outbox.jobsSettle(settle)),
  }
  const { stage, newRelay, eventsOf } = await setup(database, { store: { ...store, outbox } })
  await stage(...Array.from({ length: 50 }, (_, payload) => ({ payload })))
  await stage({ payload: 'x'.repeat(100_000) })
  const service = newRelay({
    lease: '2s',
    concurrency: 1,
    work() {
      isHanging = true
    },
  })
  service.start()
  await waitUntil('the store hangs', () => isHanging)
  const from = performance.now()
  await service.stop()
  expect(performance.now() - from).toBeLessThan(3_000)
  expect(eventsOf('job-unsettled').length).toBeGreaterThan(0)
})
