import { expect, test } from 'vitest'
import { createOnce } from '../../src/index.js'
import { deadLetters } from '../../src/outbox/index.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { relay } from '../../src/workers/index.js'
import { codeOf } from '../support/code-of.js'
import { useDatabase } from '../support/postgres/database.js'
import { nothing, setup } from './setup.js'

const database = useDatabase()

const three = [1, 2, 3].map((payload) => ({ payload, options: { group: 'g' } }))
const final = { error: new Error('410'), final: true }

test.each([false, true])(
  'a job that was given up holds its group until a person retries it, in its order (distributed: %s)',
  async (distributed) => {
    const { once, stage, newRelay, payloads, tenant } = await setup(database, { distributed })
    await stage(...three, { payload: 'alone' })
    let isDown = true
    const service = newRelay({ work: ({ payload }) => (isDown && payload === 2 ? final : undefined) })
    expect(await service.runOnce()).toEqual({ ...nothing, delivered: 2, dead: 1 })
    const [dead, ...others] = await deadLetters(once).list()
    expect([dead, others]).toMatchObject([{ tenant, name: 'mail', group: 'g', attempts: 1, error: '410' }, []])
    isDown = false
    expect(await service.runOnce()).toEqual(nothing)
    if (dead) expect([await deadLetters(once).retry([dead]), await deadLetters(once).retry([dead])]).toEqual([1, 0])
    await service.runOnce()
    expect(payloads().filter((payload) => payload !== 'alone')).toEqual([1, 2, 3])
  },
)

test.each([false, true])('with go-on the group is delivered without it (distributed: %s)', async (distributed) => {
  const { stage, newRelay, payloads } = await setup(database, { distributed })
  await stage(...three)
  const service = newRelay({ work: ({ payload }) => (payload === 2 ? final : undefined), afterDead: 'go-on' })
  expect(await service.runOnce()).toEqual({ ...nothing, delivered: 2, dead: 1 })
  expect(payloads()).toEqual([1, 3])
})

test('a job that a person discards is gone, and its group goes on', async () => {
  const { once, stage, newRelay, payloads, rows } = await setup(database)
  await stage(...three)
  const service = newRelay({ work: ({ payload }) => (payload === 1 ? final : undefined) })
  await service.runOnce()
  const dead = await deadLetters(once).list()
  const mistyped = { tenant: 't', id: 'no id' }
  expect(await deadLetters(once).discard([...dead, mistyped])).toBe(1)
  await service.runOnce()
  expect([payloads(), await rows()]).toEqual([[2, 3], []])
})

test('dead letters come in pages, and only those that are dead can be resolved', async () => {
  const { once, stage, newRelay, tenant } = await setup(database)
  await stage(...Array.from({ length: 5 }, (_, payload) => ({ payload })))
  await newRelay({ work: ({ payload }) => (payload === 4 ? { error: 'later', retryAfterMs: 60_000 } : final) }).runOnce()
  const letters = deadLetters(once)
  const first = await letters.list({ limit: 3 })
  const last = first.at(-1)
  const second = last ? await letters.list({ limit: 3, after: last }) : []
  expect([first.length, second.length]).toEqual([3, 1])
  expect(new Set([...first, ...second].map(({ id }) => id)).size).toBe(4)
  const { rows } = await database.pool.query('select id from oncekey.jobs where dead_at is null')
  expect(await letters.discard([{ tenant, id: rows[0].id }])).toBe(0)
  const stranger = first.map(({ id }) => ({ id, tenant: 'somebody else' }))
  expect(await letters.retry(stranger)).toBe(0)
})

test('the lag counts what could have been delivered, and no dead letters', async () => {
  const { stage, newRelay, advance } = await setup(database)
  const lag = () => postgresStore(fromPg(database.pool)).steps.jobsLagMs()
  await stage({ options: { delay: '1h' } })
  expect(await lag()).toBe(0)
  await advance(2 * 3_600_000)
  expect(await lag()).toBeGreaterThanOrEqual(3_600_000)
  expect(await lag()).toBeLessThan(3_660_000)
  await newRelay({ work: () => final }).runOnce()
  expect(await lag()).toBe(0)
})

test('a store without an outbox says so', () => {
  const once = createOnce({ store: memoryStore() })
  expect(codeOf(() => deadLetters(once))).toBe('outbox_unsupported')
  expect(codeOf(() => relay(once, { sink: () => {} }))).toBe('outbox_unsupported')
})
