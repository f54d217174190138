import { createOnce } from 'oncekey'
import { fromPg, postgresStore } from 'oncekey/postgres'
import { crashEverywhere } from 'oncekey/testing'
import { beforeAll, expect, test } from 'vitest'
import { createTables, tables } from '../../examples/orders/database.js'
import { createOrder } from '../../examples/orders/orders.js'
import type { Payments } from '../../examples/orders/payments.js'
import { refundOrder } from '../../examples/orders/refunds.js'
import { useDatabase } from '../support/postgres/database.js'

const { pool } = useDatabase()
const database = fromPg(pool)
beforeAll(() => createTables(database, tables))

/** A provider inside the process that remembers keys, and counts. */
function fakePayments(): Payments & { made(): number } {
  const known = new Map<string, string>()
  const once = (key: string) => {
    const id = known.get(key) ?? `made_${known.size + 1}`
    known.set(key, id)
    return id
  }
  return {
    charge: async (_, { key }) => ({ id: once(key), declined: false }),
    refund: async (_, { key }) => ({ id: once(key) }),
    made: () => known.size,
  }
}

function setup() {
  const payments = fakePayments()
  const once = createOnce({ store: postgresStore(database) })
  return { payments, order: createOrder(once, database, payments), refund: refundOrder(once, database, payments) }
}

async function expireLeases() {
  await database.query('update oncekey.keys set locked_until = now() where locked_until > now()', [])
}

test('creating an order leaves one order, one charge and one receipt wherever it crashes', async () => {
  const { payments, order } = setup()
  const { points, runs } = await crashEverywhere({
    scenario() {
      const key = crypto.randomUUID()
      const before = payments.made()
      return {
        attempt: () => order.run({ tenant: 'demo', key, input: { item: 'tea', cents: 1250, customer: key } }),
        resume: () => order.resume({ tenant: 'demo', key }),
        async check() {
          const [found] = await database.query(
            `select count(*)::integer as orders, count(charge_id)::integer as charged,
               (select count(*)::integer from oncekey.jobs as job where job.payload::json ->> 'order' = min(orders.id::text)) as receipts
             from orders where customer = $1`,
            [key],
          )
          expect({ ...found, charges: payments.made() - before }).toEqual({ orders: 1, charged: 1, receipts: 1, charges: 1 })
        },
      }
    },
    expireLeases,
  })
  expect(points).toContain('call charge_created:after')
  expect(runs).toBe(1 + 2 * points.length)
})

test('refunding an order gives the money back once wherever it crashes', async () => {
  const { payments, order, refund } = setup()
  const { points, runs } = await crashEverywhere({
    async scenario() {
      const key = crypto.randomUUID()
      const created = await order.run({ tenant: 'demo', key, input: { item: 'tea', cents: 1250, customer: key } })
      if (created.kind !== 'executed') throw new Error(`the order was not created: ${created.kind}`)
      const id = JSON.parse(new TextDecoder().decode(created.answer.body)).id as string
      const before = payments.made()
      return {
        attempt: () => refund.run({ tenant: 'demo', key, input: { order: id } }),
        resume: () => refund.resume({ tenant: 'demo', key }),
        async check() {
          const [found] = await database.query('select refund_id is not null as refunded from orders where id = $1::uuid', [id])
          expect([found?.refunded, payments.made() - before]).toEqual([true, 1])
        },
      }
    },
    expireLeases,
  })
  expect(points).toContain('call refund_created:after')
  expect(runs).toBe(1 + 2 * points.length)
})

test('an order is refunded by one of several people who try at once, and not before it is charged', async () => {
  const { payments, order, refund } = setup()
  const statusOf = (outcome: Awaited<ReturnType<typeof refund.run>>) => (outcome.kind === 'executed' ? outcome.answer.status : outcome.kind)
  const [unpaid] = await database.query(`insert into orders (item, cents, customer) values ('tea', 1250, 'b') returning id::text as id`, [])
  const input = { order: unpaid?.id as string }
  expect(statusOf(await refund.run({ tenant: 'demo', key: 'too early', input }))).toBe(409)

  await order.run({ tenant: 'demo', key: 'order', input: { item: 'tea', cents: 1250, customer: 'a' } })
  const [paid] = await database.query(`select id::text as id from orders where customer = 'a'`, [])
  const keys = ['one', 'two', 'three', 'four', 'five']
  const outcomes = await Promise.all(keys.map((key) => refund.run({ tenant: 'demo', key, input: { order: paid?.id as string } })))
  expect(outcomes.map(statusOf).sort()).toEqual([200, 409, 409, 409, 409])
  expect(payments.made()).toBe(2)
})
