import { PGlite } from '@electric-sql/pglite'
import { fromPglite, migrate } from 'oncekey/postgres'
import { crashEverywhere } from 'oncekey/testing'
import { afterAll, expect, test } from 'vitest'
import { ordersService, tables } from '../../examples/quickstart/orders.js'
import { fakeProvider } from '../../examples/quickstart/provider.js'

const db = new PGlite()
afterAll(() => db.close())

test('the order of the quick start leaves one order, one charge and one receipt wherever it crashes', async () => {
  const database = fromPglite(db)
  await migrate(database)
  await database.query(tables, [])
  const provider = fakeProvider()
  const { createOrder } = ordersService(database, provider)

  const { points, runs } = await crashEverywhere({
    scenario() {
      const key = crypto.randomUUID()
      const before = provider.charges()
      return {
        attempt: () => createOrder.run({ tenant: 'demo', key, input: { item: key } }),
        resume: () => createOrder.resume({ tenant: 'demo', key }),
        async check() {
          const [found] = await database.query(
            `select count(*)::integer as orders, count(charge_id)::integer as charged,
               (select count(*)::integer from oncekey.jobs as job where job.payload::json ->> 'orderId' = min(orders.id::text)) as receipts
             from orders where item = $1`,
            [key],
          )
          expect({ ...found, charges: provider.charges() - before }).toEqual({ orders: 1, charged: 1, receipts: 1, charges: 1 })
        },
      }
    },
    async expireLeases() {
      await database.query('update oncekey.keys set locked_until = now() where locked_until > now()', [])
    },
  })
  expect(points.length).toBeGreaterThan(10)
  expect(runs).toBe(1 + 2 * points.length)
})
