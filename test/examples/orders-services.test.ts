// The examples that make orders, each as a process of its own on a real database.
import { expect, test } from 'vitest'
import { type TestDatabase, useDatabase } from '../support/postgres/database.js'
import { alice, expectOneChargeAfterKill, expectOneOrderEach } from './orders-services.js'
import { post, startExample } from './process.js'

interface Service {
  readonly name: string
  /** What this one shows besides. */
  readonly also?: (url: string, database: TestDatabase) => Promise<void>
  /** Nest ends itself by the signal that it was sent. */
  readonly endsWith?: string
}

const services: Service[] = [
  { name: 'express-pg', also: keepsCustomersApart },
  { name: 'fastify-drizzle' },
  { name: 'hono-postgres-js' },
  { name: 'nest-kysely', also: protectsHandler, endsWith: 'SIGTERM' },
]
// The examples migrate it themselves.
const tried = services.map((service) => ({ ...service, database: useDatabase({ migrated: false }) }))

test.concurrent.for(tried)(
  '$name makes and charges each order once, twenty at once, and killed in the middle of the charge',
  async ({ name, also, database, endsWith = 0 }, context) => {
    const start = () => startExample(`${name}/server.ts`, { DATABASE_URL: database.url }, context)
    const first = await start()
    await expectOneOrderEach(`${first.url}/orders`, database)
    await also?.(first.url, database)
    const second = start()
    await expectOneChargeAfterKill(first, second, database, '/orders')

    const { url, stop } = await second
    expect(await (await fetch(`${url}/orders`, { headers: alice })).json()).toHaveLength(4)
    expect(await stop()).toBe(endsWith)
  },
)

/** Keys belong to users, and who is nobody comes to no key. */
async function keepsCustomersApart(url: string): Promise<void> {
  const order = (headers: Record<string, string>) => post(`${url}/orders`, { 'idempotency-key': 'order-1', ...headers }, '{"item":"tea"}')
  expect((await order({})).status).toBe(401)
  const [hers, his] = [await order(alice), await order({ authorization: 'Bearer bob' })]
  expect([hers, his]).toMatchObject([
    { status: 201, replayed: 'true' },
    { status: 201, replayed: null },
  ])
  expect(his.body).not.toBe(hers.body)
}

/** The handler that stays as it is runs once, and not without a key. */
async function protectsHandler(url: string, { pool }: TestDatabase): Promise<void> {
  const buy = (headers: Record<string, string>) => post(`${url}/gift-cards`, headers, '{"cents":500}')
  const bought = await buy({ 'idempotency-key': 'gift-1' })
  expect(bought).toMatchObject({ status: 201, replayed: null })
  expect(await buy({ 'idempotency-key': 'gift-1' })).toEqual({ ...bought, replayed: 'true' })
  expect((await buy({})).status).toBe(400)
  expect((await pool.query('select cents from gift_cards')).rows).toEqual([{ cents: 500 }])
}
