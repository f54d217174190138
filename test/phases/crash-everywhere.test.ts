import { expect, test } from 'vitest'
import { crashEverywhere } from '../../src/testing/index.js'
import { startChild } from '../support/child.js'
import { useDatabase } from '../support/postgres/database.js'
import { ordersService, ordersTable, traces, type WhenUnknown } from './orders.js'

const database = useDatabase()
const long = process.env.ONCEKEY_LONG === '1'

async function everywhere(
  whenUnknown: WhenUnknown,
  honoursKeys: boolean,
  allowed: (found: Awaited<ReturnType<typeof traces>>) => boolean,
  twice = false,
) {
  await database.ensure(ordersTable)
  const provider = await startChild('phases/provider.ts', { honoursKeys }).message<string>()
  const { createOrder } = ordersService(database.pool, provider, whenUnknown)
  return crashEverywhere({
    twice,
    scenario() {
      const id = crypto.randomUUID()
      return {
        attempt: () => createOrder.run({ tenant: 't', key: id, input: { id } }),
        // Twice with workers as well is twice as long; after one crash they come back in the other tests.
        ...(twice && !long ? {} : { resume: () => createOrder.resume({ tenant: 't', key: id }) }),
        async check() {
          const found = await traces(database.pool, provider, id)
          if (!allowed(found)) throw new Error(JSON.stringify(found))
        },
      }
    },
    async expireLeases() {
      await database.pool.query(
        `update oncekey.keys set locked_until = clock_timestamp() - interval '1 second' where locked_until is not null`,
      )
      await database.pool.query(
        `update oncekey.steps set recorded_at = recorded_at - interval '1 second' where recorded_at > clock_timestamp() - interval '1 second'`,
      )
    },
  })
}

type Traces = Awaited<ReturnType<typeof traces>>
const one = ({ orders, charges, receipts, state }: Traces) => orders === 1 && charges === 1 && receipts === 1 && state === 'complete'

test('leaves one order, one charge and one receipt wherever it crashes, at a provider that honours keys', async () => {
  const { points } = await everywhere('resend', true, one)
  expect(points).toMatchInlineSnapshot(`
    [
      "claim:before",
      "claim:after",
      "phase order_created:before",
      "phase order_created:begun",
      "phase order_created:worked",
      "phase order_created:written",
      "phase order_created:committed",
      "call charge_created:before",
      "call charge_created:after",
      "finish:before",
      "finish:begun",
      "finish:worked",
      "finish:written",
      "finish:committed",
    ]
  `)
})

test('does so when the retry crashes too', { timeout: 600_000 }, async () => {
  const { runs } = await everywhere('resend', true, one, true)
  expect(runs).toBeGreaterThan(100)
})

test('does so by asking a provider that has no keys', async () => {
  await everywhere('lookup', false, one)
})

test('never charges twice at a provider that has neither, and parks what nobody knows', async () => {
  const parked = ({ charges, state }: Traces) => charges <= 1 && state === 'parked'
  await everywhere('park', false, (found) => one(found) || parked(found))
})
