import { expect, test } from 'vitest'
import { relay } from '../../src/workers/index.js'
import { codeOf } from '../support/code-of.js'
import { useDatabase } from '../support/postgres/database.js'
import { down, nothing, setup } from './setup.js'

const database = useDatabase()
const key = (id: string) => ({ id, key: Buffer.alloc(32, id) })

test.each([
  [{ group: '' }, 'option_invalid'],
  [{ group: 'x'.repeat(256) }, 'option_invalid'],
  [{ group: 7 as never }, 'option_invalid'],
  [{ delay: -1 }, 'duration_invalid'],
  [{ delay: 'soon' as never }, 'duration_invalid'],
] as const)('refuses %j, and stages nothing', async (options, code) => {
  const { stage, rows } = await setup(database)
  await expect(stage({ payload: 1 }, { options })).rejects.toMatchObject({ code })
  expect(await rows()).toEqual([])
})

test('a delay of nothing is none', async () => {
  const { stage, newRelay } = await setup(database)
  await stage({ options: { delay: 0 } })
  expect(await newRelay().runOnce()).toEqual({ ...nothing, delivered: 1 })
})

test('jobs of one commit are delivered in the order in which they were staged', async () => {
  const { stage, newRelay, payloads } = await setup(database)
  const numbers = Array.from({ length: 12 }, (_, n) => n)
  await stage(...numbers.map((payload) => ({ payload, options: { group: 'g' } })))
  await newRelay().runOnce()
  expect(payloads()).toEqual(numbers)
})

test('groups of two tenants with one name do not wait for each other', async () => {
  const one = await setup(database)
  await one.stage({ payload: 1, options: { group: 'g' } })
  const other = await setup(database, { keep: true })
  await other.stage({ payload: 2, options: { group: 'g' } })
  const service = other.newRelay({ work: ({ tenant }) => (tenant === one.tenant ? down() : undefined), backoff: { first: '1h' } })
  expect(await service.runOnce()).toEqual({ ...nothing, delivered: 1, failed: 1 })
})

test('payloads are sealed with encryption, and opened for the sink, also after a rotation', async () => {
  const { stage } = await setup(database, { encryption: { keys: [key('old key')] } })
  await stage({ payload: { card: '4242' } })
  const { rows } = await database.pool.query('select payload, id from oncekey.jobs')
  expect(rows[0].payload).toMatch(/^oncekey-sealed \S+ old key$/)
  expect(Buffer.from(rows[0].payload.split(' ')[1], 'base64').toString('latin1')).not.toContain('4242')
  const rotated = await setup(database, { keep: true, encryption: { keys: [key('new'), key('old key')] } })
  await rotated.newRelay().runOnce()
  expect(rotated.payloads()).toEqual([{ card: '4242' }])
})

test('a job that cannot be opened fails alone, and is delivered when its key is back; no sink is sent ciphertext', async () => {
  const { stage } = await setup(database, { encryption: { keys: [key('lost')] } })
  await stage({ payload: 'sealed' })
  const without = await setup(database, { keep: true })
  await without.stage({ payload: 'plain' })
  expect(await without.newRelay({ backoff: { first: '1h' } }).runOnce()).toEqual({ ...nothing, delivered: 1, failed: 1 })
  expect(without.payloads()).toEqual(['plain'])
  expect(without.eventsOf('job-failed')).toMatchObject([{ error: { code: 'encryption_key_missing' } }])
  const again = await setup(database, { keep: true, encryption: { keys: [key('lost')] } })
  await again.advance(3_600_000)
  await again.newRelay().runOnce()
  expect(again.payloads()).toEqual(['sealed'])
})

test('a sealed payload that was moved to another job does not open', async () => {
  const { stage, newRelay, eventsOf } = await setup(database, { encryption: { keys: [key('k')] } })
  await stage({ payload: 'mine' }, { payload: 'yours' })
  await database.pool.query('update oncekey.jobs as job set payload = other.payload from oncekey.jobs as other where other.id <> job.id')
  expect(await newRelay({ backoff: { first: '1h' } }).runOnce()).toEqual({ ...nothing, failed: 2 })
  expect(eventsOf('job-failed').map(({ error }) => (error as { code: string }).code)).toEqual(['answer_unreadable', 'answer_unreadable'])
})

test('the relay checks its options at start', async () => {
  const { once } = await setup(database)
  const sink = () => {}
  for (const options of [
    {},
    { sinks: {} },
    { sink: {} as never },
    { sink: { name: 'a', maxBatch: 0, deliver: async () => [] } },
    { sink, batch: 1 },
    { sink, concurrency: 0 },
    { sink, maxAttempts: 0.5 },
    { sink, lease: '10s', timeout: '6s' },
    { sink, afterDead: 'stop' as never },
  ] as const) {
    expect([options, codeOf(() => relay(once, options))]).toEqual([options, 'option_invalid'])
  }
  expect(codeOf(() => relay(once, { sink, lease: 0 }))).toBe('duration_invalid')
  expect(codeOf(() => relay(once, { sink, backoff: { most: 0 } }))).toBe('duration_invalid')
})
