import { expect, test } from 'vitest'
import { armCrashPoints } from '../../src/testing/index.js'
import { startChild } from '../support/child.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { ordersService, ordersTable, traces, type WhenUnknown } from './orders.js'

const database = useDatabase()
const long = process.env.ONCEKEY_LONG === '1'

/** Kills a real process at that boundary of an order, lets its lease run out, and comes back as the client would. */
async function killAt(crashPoint: number, provider: string, whenUnknown: WhenUnknown) {
  const id = `${whenUnknown}-${crashPoint}`
  const child = startChild('phases/doomed-order.ts', { url: database.url, provider, whenUnknown, id, crashPoint })
  await expect(child.message()).rejects.toThrow('SIGKILL')
  await database.pool.query('update oncekey.keys set locked_until = clock_timestamp() where key = $1 and locked_until is not null', [id])
  const { createOrder } = ordersService(database.pool, provider, whenUnknown)
  await waitUntil(
    'a retry is answered',
    async () => (await createOrder.run({ tenant: 't', key: id, input: { id } })).kind !== 'in-progress',
  )
  return traces(database.pool, provider, id)
}

/** All boundaries of an order, in their order. */
async function boundaries(provider: string, whenUnknown: WhenUnknown): Promise<string[]> {
  const points: string[] = []
  const disarm = armCrashPoints((point) => void points.push(point))
  const id = `${whenUnknown}-lives`
  try {
    await ordersService(database.pool, provider, whenUnknown).createOrder.run({ tenant: 't', key: id, input: { id } })
  } finally {
    disarm()
  }
  return points
}

/** One process for each boundary that is wanted. */
async function killEverywhere(whenUnknown: WhenUnknown, honoursKeys: boolean, isWanted: (point: string) => boolean) {
  await database.ensure(ordersTable)
  const provider = await startChild('phases/provider.ts', { honoursKeys }).message<string>()
  const points = [...(await boundaries(provider, whenUnknown)).entries()].flatMap(([index, point]) => (isWanted(point) ? [index] : []))
  const found: Awaited<ReturnType<typeof traces>>[] = []
  for (let first = 0; first < points.length; first += 4) {
    found.push(...(await Promise.all(points.slice(first, first + 4).map((point) => killAt(point, provider, whenUnknown)))))
  }
  return found
}

const one = { orders: 1, charges: 1, receipts: 1, state: 'complete' }
const everywhere = () => true
/** Where the three ways differ. Before and after it they are the same, and killed in the first test. */
const aroundTheCall = (point: string) => long || /^(call|record) |^finish:(before|written|committed)$/.test(point)

test('charges once at a provider that honours keys, at whatever boundary the process is killed', { timeout: 240_000 }, async () => {
  const found = await killEverywhere('resend', true, everywhere)
  expect(found.length).toBeGreaterThanOrEqual(14)
  expect(found).toEqual(found.map(() => one))
})

test('charges once at a provider that has no keys but can be asked, at each boundary around the call', { timeout: 240_000 }, async () => {
  const found = await killEverywhere('lookup', false, aroundTheCall)
  expect(found.length).toBeGreaterThanOrEqual(long ? 18 : 5)
  expect(found).toEqual(found.map(() => one))
})

test('charges at most once at a provider that has neither, and parks the key when the call was about to be made', {
  timeout: 240_000,
}, async () => {
  const found = await killEverywhere('park', false, aroundTheCall)
  const parked = found.filter(({ state }) => state === 'parked')
  expect(found.filter(({ charges }) => charges > 1)).toEqual([])
  // Intent committed; about to call; called; about to record: four places where nobody can know.
  expect(parked).toHaveLength(4)
  expect(parked.map(({ charges }) => charges)).toEqual([0, 0, 1, 1])
  expect(found.filter(({ state }) => state !== 'parked')).toEqual(found.slice(parked.length).map(() => one))
})
