import { expect, test } from 'vitest'
import { fromPg } from '../../src/stores/postgres/index.js'
import { workers } from '../../src/workers/index.js'
import { ordersService, ordersTable, traces } from '../phases/orders.js'
import { startChild } from '../support/child.js'
import { useDatabase } from '../support/postgres/database.js'
import { postgresHarness } from '../support/postgres/harness.js'
import { waitUntil } from '../support/wait-until.js'

const database = useDatabase()

/** Its processes are killed with a real SIGKILL, at every boundary of an order; their clients never come back. */
test('what processes of before left half-way is carried to its end by those of a new deploy, charged once', {
  timeout: 240_000,
}, async () => {
  const { pool, url } = database
  await pool.query(ordersTable)
  const provider = await startChild('phases/provider.ts', { honoursKeys: true }).message<string>()
  const ids: string[] = []
  for (let first = 0; ; first += 4) {
    const batch = [first, first + 1, first + 2, first + 3].map(async (crashPoint) => {
      const id = `order-${crashPoint}`
      const child = startChild('phases/doomed-order.ts', { url, provider, whenUnknown: 'resend', id, crashPoint })
      const lives = await child.message().then(
        () => true,
        () => false,
      )
      ids.push(id)
      return lives
    })
    if ((await Promise.all(batch)).includes(true)) break
  }
  const unfinished = async () => {
    const { rows } = await pool.query(`select key from oncekey.keys where state <> 'complete'`)
    return rows.map(({ key }) => key as string)
  }
  expect((await unfinished()).length).toBeGreaterThan(10)
  const { advance } = await postgresHarness(fromPg(pool))
  await advance(600_000)

  const { once } = ordersService(pool, provider, 'resend')
  const background = workers(once, { sweeper: { every: 100 }, completer: { every: 100 } })
  background.start()
  await waitUntil('nothing is left half-way', async () => (await unfinished()).length === 0, 120_000)
  await background.stop()
  await once.stop()

  // Those that were killed before their claim left no trace at all, and there was nobody to come back.
  const { rows } = await pool.query('select key from oncekey.keys')
  for (const id of ids.filter((each) => rows.some(({ key }) => key === each))) {
    expect([id, await traces(pool, provider, id)]).toEqual([id, { orders: 1, charges: 1, receipts: 1, state: 'complete' }])
  }
})
