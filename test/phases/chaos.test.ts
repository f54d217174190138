import { expect, test } from 'vitest'
import { startChild } from '../support/child.js'
import { useDatabase } from '../support/postgres/database.js'
import { ordersTable } from './orders.js'
import { seededRandom } from './seeded-random.js'

const database = useDatabase()
const seed = Number(process.env.ONCEKEY_SEED ?? Math.floor(Math.random() * 2 ** 32))
const long = process.env.ONCEKEY_LONG === '1'

const count = long ? 1_000 : 40

test(`leaves one charge, one order and one receipt each of ${count} orders, with four processes that keep dying (ONCEKEY_SEED=${seed})`, {
  timeout: 1_200_000,
}, async () => {
  await database.ensure(ordersTable)
  const provider = await startChild('phases/provider.ts', { honoursKeys: true }).message<string>()
  const ids = Array.from({ length: count }, (_, index) => `chaos-${index}`)
  const random = seededRandom(seed)
  let deaths = 0

  /** One of four seats: whenever its process dies, another one sits down. */
  async function seat() {
    for (;;) {
      const settings = { url: database.url, provider, ids, seed: Math.floor(random() * 2 ** 32), crashOneIn: 60 }
      const done = await startChild('phases/chaos-worker.ts', settings)
        .message()
        .catch(() => null)
      if (done) return
      deaths += 1
    }
  }
  await Promise.all([seat(), seat(), seat(), seat()])

  const { rows } = await database.pool.query(`
    select count(*)::integer as keys,
      count(*) filter (where state = 'complete')::integer as complete,
      (select count(*)::integer from orders where charge_id is not null) as charged_orders,
      (select count(*)::integer from orders) as orders,
      (select count(*)::integer from oncekey.jobs where tenant = 'chaos') as receipts,
      (select count(distinct payload)::integer from oncekey.jobs where tenant = 'chaos') as distinct_receipts
    from oncekey.keys where tenant = 'chaos'`)
  const charges = (await (await fetch(provider)).json()) as { order: string }[]
  expect(rows[0]).toEqual({
    keys: count,
    complete: count,
    charged_orders: count,
    orders: count,
    receipts: count,
    distinct_receipts: count,
  })
  expect(charges).toHaveLength(count)
  expect(new Set(charges.map(({ order }) => order)).size).toBe(count)
  // Otherwise nothing was tried. (An order has 14 places to die at, so that about a quarter of them is the cause of a death.)
  expect(deaths).toBeGreaterThan(count / 20)
})
