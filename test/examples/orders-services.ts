import { expect } from 'vitest'
import type { TestDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { type Answer, endLeases, post } from './process.js'

export const alice = { authorization: 'Bearer alice' }

const orderAt = (url: string, key: string, item: string): Promise<Answer> =>
  post(url, { ...alice, 'idempotency-key': key }, JSON.stringify({ item }))

/** What every service that makes orders promises: the same answer for the same request, and one order for twenty at once. */
export async function expectOneOrderEach(url: string, { pool }: TestDatabase): Promise<void> {
  const first = await orderAt(url, 'order-1', 'tea')
  expect(first).toMatchObject({ status: 201, replayed: null, body: expect.stringMatching(/"item":"tea","charge":"ch_/) })
  expect(await orderAt(url, 'order-1', 'tea')).toEqual({ ...first, replayed: 'true' })
  expect((await orderAt(url, 'order-1', 'coffee')).status).toBe(422)
  expect(await orderAt(url, 'order-2', 'declined')).toMatchObject({ status: 402, replayed: null })
  expect(await orderAt(url, 'order-2', 'declined')).toMatchObject({ status: 402, replayed: 'true' })

  const twenty = await Promise.all(Array.from({ length: 20 }, () => orderAt(url, 'order-3', 'juice')))
  expect(twenty.filter(({ status, replayed }) => status === 201 && !replayed)).toHaveLength(1)
  expect(twenty.filter(({ status }) => status !== 201 && status !== 409)).toEqual([])
  expect(await madeOf(pool, 'juice')).toEqual({ orders: 1, charged: 1, charges: 1 })
  expect(await madeOf(pool, 'coffee')).toEqual({ orders: 0, charged: 0, charges: 0 })
}

/** Kills a process right after the charge, while nobody has heard of its result, and sends the order again to another one. */
export async function expectOneChargeAfterKill(
  doomed: { readonly url: string; kill(): unknown },
  survivor: Promise<{ readonly url: string }>,
  { pool }: TestDatabase,
  path: string,
): Promise<void> {
  const lost = orderAt(`${doomed.url}${path}`, 'order-4', 'slow').catch(() => {})
  await waitUntil('the provider has charged', async () => (await madeOf(pool, 'slow')).charges)
  await doomed.kill()
  await lost
  const { url } = await survivor
  await pool.query(endLeases)
  await waitUntil('the order is answered', async () => (await orderAt(`${url}${path}`, 'order-4', 'slow')).status === 201)
  expect(await madeOf(pool, 'slow')).toEqual({ orders: 1, charged: 1, charges: 1 })
}

/** What there is of an item: orders, those with a charge, and charges in the provider's own books. */
async function madeOf(pool: TestDatabase['pool'], item: string) {
  const { rows } = await pool.query(
    `select (select count(*)::integer from orders where item = $1) as orders,
       (select count(charge)::integer from orders where item = $1) as charged,
       (select count(*)::integer from provider_charges where item = $1) as charges`,
    [item],
  )
  return rows[0] as { orders: number; charged: number; charges: number }
}
