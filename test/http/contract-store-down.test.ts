import type pg from 'pg'
import { describe, expect, test } from 'vitest'
import { OncekeyError } from '../../src/index.js'
import { type TestDatabase, useDatabase } from '../support/postgres/database.js'
import { startProxy } from '../support/postgres/proxy.js'
import { hopeless, refusals } from './refusals.js'
import { isReplay, problemOf, type Seen } from './seen.js'
import { everywhere, setup } from './setup.js'

const database = useDatabase()

const key = 'k'
const body = '{"amount":100}'

function expectStoreDown(answer: Seen) {
  expect(problemOf(answer)).toEqual({ status: 503, code: 'store_unavailable' })
  expect(Number(answer.header('retry-after'))).toBeGreaterThanOrEqual(1)
  expect(isReplay(answer)).toBe(false)
}

const outages: [string, (database: TestDatabase) => Promise<pg.Pool>][] = [
  ['nobody listens', async ({ url, createPool }) => createPool({ connectionString: url.replace(/:\d+\//, ':1/') })],
  [
    'it hangs',
    async ({ url, createPool }) => {
      const proxy = await startProxy(url)
      proxy.blackHole(/./)
      return createPool({ connectionString: proxy.url })
    },
  ],
  ['it takes no writes', async ({ createPool }) => createPool({ options: '-c default_transaction_read_only=on' })],
  [
    'the pool is closed',
    async ({ createPool }) => {
      const pool = createPool()
      await pool.end()
      return pool
    },
  ],
]

describe.each(everywhere)('the store of %s() in the %s profile is down', (surface, profile) => {
  test.each(outages)('D5 %s: 503, Retry-After, n=0', async (_, breakDown) => {
    const { on, events } = await setup(database, profile, { pool: await breakDown(database), storeTimeout: '500ms' })
    const { send, runs } = on(surface)
    expectStoreDown(await send({ key, body }))
    expect([runs(), events]).toEqual([0, ['not-claimed']])
  })

  test('D5 an error of the store that is no outage comes out as it is, n=0', async () => {
    const { on, caller } = await setup(database, profile)
    const { send, runs } = on(surface)
    await send({ key, body })
    await database.pool.query(`update oncekey.keys set scope = 'another' where tenant = $1`, [caller])
    await expect(send({ key, body })).rejects.toMatchObject({ code: 'store_key_collision' })
    expect(runs()).toBe(1)
  })

  test('D5 a request without a key is not concerned, where none is stored for it', async () => {
    const { handler } = await setup(database, profile, { pool: await closedPool(), storeTimeout: '500ms' })
    expect((await handler().send({ body })).status).toBe(201)
  })
})

describe.each(['ietf', 'stripe'] as const)('the store of local work in the %s profile is down', (profile) => {
  test.each(outages)('D5 %s: 503, Retry-After, n=0', { timeout: 20_000 }, async (_, breakDown) => {
    const { local, events } = await setup(database, profile, { pool: await breakDown(database), storeTimeout: '500ms' })
    const { send, runs } = local()
    expectStoreDown(await send({ key, body }))
    expect([runs(), events]).toEqual([0, ['not-claimed']])
  })
})

async function closedPool(): Promise<pg.Pool> {
  const pool = database.createPool()
  await pool.end()
  return pool
}

describe.each(['ietf', 'stripe'] as const)('failOpen of idempotency() in the %s profile', (profile) => {
  test('D5 runs the handler unprotected while the store is down, and an event tells of it', async () => {
    const { handler, events } = await setup(database, profile, { pool: await closedPool() })
    const { send, runs } = handler({ failOpen: true })
    const answers = [await send({ key, body }), await send({ key, body })]
    expect(answers.map(({ json }) => json)).toEqual([{ order: 1 }, { order: 2 }])
    expect(answers.map(isReplay)).toEqual([false, false])
    expect([runs(), events]).toEqual([2, ['not-claimed', 'failed-open', 'not-claimed', 'failed-open']])
  })

  test('D5 refuses a malformed or missing key all the same', async () => {
    const { handler } = await setup(database, profile, { pool: await closedPool() })
    const { send, runs } = handler({ failOpen: true, required: true })
    expect(problemOf(await send({ key: '', body })).code).toBe('key_invalid')
    expect(problemOf(await send({ body })).code).toBe('key_missing')
    expect(runs()).toBe(0)
  })

  test('changes nothing while the store is there', async () => {
    const { handler } = await setup(database, profile)
    const { send, runs } = handler({ failOpen: true })
    await send({ key, body })
    expect(isReplay(await send({ key, body }))).toBe(true)
    expect(problemOf(await send({ key, body: '{}' })).code).toBe('key_reused')
    expect(runs()).toBe(1)
  })

  test('D5 lets no mistake of the service pass: it is not the store that is down', async () => {
    const { handler } = await setup(database, profile)
    const { send, runs } = handler({ failOpen: true, tenant: () => '' })
    await expect(send({ key, body })).rejects.toMatchObject({ code: 'tenant_invalid' })
    expect(runs()).toBe(0)
  })

  test("D7 does not run the handler again when the handler's own call of a store fails", async () => {
    const { handler } = await setup(database, profile)
    const { send, runs } = handler({ failOpen: true }, () => {
      throw new OncekeyError('store_unavailable', 'the store of somebody else is down')
    })
    await expect(send({ key, body })).rejects.toThrow('of somebody else')
    expect(runs()).toBe(1)
  })

  test('D7 does not run the handler again when its answer cannot be stored', async () => {
    const { handler, caller } = await setup(database, profile)
    const { refuse } = await refusals(database)
    await refuse(caller, hopeless)
    const { send, runs } = handler({ failOpen: true })
    expect((await send({ key, body })).json).toEqual({ order: 1 })
    expect(runs()).toBe(1)
  })
})
