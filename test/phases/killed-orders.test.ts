import { expect, test } from 'vitest'
import { startChild } from '../support/child.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { ordersService, ordersTable, traces, type WhenUnknown } from './orders.js'

const database = useDatabase()

/** Kills a real process at that boundary of an order, waits for its lease to run out, and comes back as the client would. */
async function killAt(crashPoint: number, provider: string, whenUnknown: WhenUnknown) {
  const id = `${whenUnknown}-${crashPoint}`
  const child = startChild('phases/doomed-order.ts', { url: database.url, provider, whenUnknown, id, crashPoint })
  const died = await child.message<string>().then(
    () => false,
    () => true,
  )
  const { createOrder } = ordersService(database.pool, provider, whenUnknown)
  await waitUntil(
    'a retry is answered',
    async () => (await createOrder.run({ tenant: 't', key: id, input: { id } })).kind !== 'in-progress',
  )
  return { died, found: await traces(database.pool, provider, id) }
}

/** Goes through all boundaries, one process each, until a run lives: then there are no more. */
async function killEverywhere(whenUnknown: WhenUnknown, honoursKeys: boolean) {
  await database.pool.query(ordersTable)
  const provider = await startChild('phases/provider.ts', { honoursKeys }).message<string>()
  const results: Awaited<ReturnType<typeof killAt>>[] = []
  for (let first = 0; results.every(({ died }) => died); first += 4) {
    const batch = [first, first + 1, first + 2, first + 3]
    results.push(...(await Promise.all(batch.map((point) => killAt(point, provider, whenUnknown)))))
  }
  return results.filter(({ died }) => died).map(({ found }) => found)
}

const one = { orders: 1, charges: 1, receipts: 1, state: 'complete' }

test('charges once at a provider that honours keys, at whatever boundary the process is killed', { timeout: 240_000 }, async () => {
  const found = await killEverywhere('resend', true)
  expect(found.length).toBeGreaterThanOrEqual(14)
  expect(found).toEqual(found.map(() => one))
})

test('charges once at a provider that has no keys but can be asked, at whatever boundary', { timeout: 240_000 }, async () => {
  const found = await killEverywhere('lookup', false)
  expect(found.length).toBeGreaterThanOrEqual(18)
  expect(found).toEqual(found.map(() => one))
})

test('charges at most once at a provider that has neither, and parks the key when the call was about to be made', {
  timeout: 240_000,
}, async () => {
  const found = await killEverywhere('park', false)
  const parked = found.filter(({ state }) => state === 'parked')
  expect(found.filter(({ charges }) => charges > 1)).toEqual([])
  // Intent committed; about to call; called; about to record: four places where nobody can know.
  expect(parked).toHaveLength(4)
  expect(parked.map(({ charges }) => charges)).toEqual([0, 0, 1, 1])
  expect(found.filter(({ state }) => state !== 'parked')).toEqual(found.slice(parked.length).map(() => one))
})
