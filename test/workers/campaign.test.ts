import { expect, test } from 'vitest'
import { ordersTable } from '../phases/orders.js'
import { seededRandom } from '../phases/seeded-random.js'
import { type Child, startChild } from '../support/child.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { type SeededKey, seedKeys } from './campaign-keys.js'

const database = useDatabase()
const seed = Number(process.env.ONCEKEY_SEED ?? Math.floor(Math.random() * 2 ** 32))
const long = process.env.ONCEKEY_LONG === '1'

const orders = long ? 20_000 : 300
const kills = long ? 60 : 4
const leaseMs = 2_000
const everyMs = 1_000

/** A tenth of each kind; the other half comes from clients while it goes on. */
const kinds: Record<string, Omit<SeededKey, 'key'>> = {
  crashed: { state: 'processing' },
  released: { state: 'pending' },
  left: { state: 'pending', async: true },
}

test(`no key runs twice, none stays stuck and no live one is reaped, with three processes that keep being killed (ONCEKEY_SEED=${seed})`, {
  timeout: 1_200_000,
}, async () => {
  const { pool } = database
  const random = seededRandom(seed)
  await pool.query(ordersTable)
  const provider = await startChild('phases/provider.ts', { honoursKeys: true }).message<string>()
  const names = Object.keys(kinds)
  const seeded = Array.from({ length: orders }, (_, number) => number)
    .filter((number) => number % 10 < names.length)
    .map((number) => ({ key: `order-${number}`, ...kinds[names[number % 10] as string] }) as SeededKey)
  await seedKeys(pool, 'campaign', 'orders.create', seeded)
  const others = (state: SeededKey['state'], expired: boolean, count: number) =>
    Array.from({ length: count }, (_, number): SeededKey => ({ key: `${state}-${expired}-${number}`, state, expired }))
  const tenth = orders / 10
  const bystanders = [...others('complete', false, tenth), ...others('failed', false, tenth), ...others('parked', true, tenth)]
  await seedKeys(pool, 'bystanders', 'orders.create', [...bystanders, ...others('complete', true, tenth), ...others('failed', true, tenth)])

  const settings = () => ({ url: database.url, provider, orders, seed: Math.floor(random() * 2 ** 32), leaseMs, everyMs })
  const start = async (): Promise<Child> => {
    const child = startChild('workers/campaign-process.ts', settings())
    await child.message()
    return child
  }
  const processes = await Promise.all([start(), start(), start()])
  let longestMs = 0
  const watch = async () => {
    const { rows } = await pool.query(`
      select coalesce(max(extract(epoch from clock_timestamp() - locked_until) * 1000), 0)::float8 as ms
      from oncekey.keys where state = 'processing'`)
    longestMs = Math.max(longestMs, rows[0].ms)
  }
  // What was stuck before anybody was there to sweep does not count.
  await waitUntil('the first sweep is over', async () => {
    const { rows } = await pool.query(`select 1 from oncekey.keys where state = 'processing' and locked_until < clock_timestamp() limit 1`)
    return rows.length === 0
  })
  for (let kill = 0; kill < kills; kill += 1) {
    const seat = Math.floor(random() * 3)
    processes[seat]?.signal('SIGKILL')
    const until = performance.now() + 1_000
    const next = start()
    await waitUntil('the next one is to be killed', async () => {
      await watch()
      return performance.now() >= until
    })
    processes[seat] = await next
  }

  const states = async () => {
    const { rows } = await pool.query(
      `select state, count(*)::integer as count from oncekey.keys where tenant = 'campaign' group by state order by state`,
    )
    return Object.fromEntries(rows.map(({ state, count }) => [state, count as number]))
  }
  // New orders keep coming until there are no more of them, so this is their end, too.
  await waitUntil('every order is complete', async () => (await states()).complete === orders, 600_000)
  expect(await states()).toEqual({ complete: orders })
  for (const child of processes) child.signal('SIGKILL')

  const { rows } = await pool.query(`
    select (select count(*)::integer from orders where charge_id is not null) as charged_orders,
      (select count(*)::integer from orders) as orders,
      (select count(*)::integer from oncekey.jobs where tenant = 'campaign') as receipts,
      (select count(distinct payload)::integer from oncekey.jobs where tenant = 'campaign') as distinct_receipts`)
  expect(rows[0]).toEqual({ charged_orders: orders, orders, receipts: orders, distinct_receipts: orders })
  const charges = (await (await fetch(provider)).json()) as { order: string }[]
  expect(charges).toHaveLength(orders)
  expect(new Set(charges.map(({ order }) => order)).size).toBe(orders)

  const left = await pool.query(`select key from oncekey.keys where tenant = 'bystanders' order by key`)
  expect(left.rows.map(({ key }) => key)).toEqual(bystanders.map(({ key }) => key).sort())
  // Those that were seeded had a holder before; of the others only one that was killed leaves its key to somebody else.
  const { rows: orphans } = await pool.query(
    `select 1 from oncekey.keys where tenant = 'campaign' and fence > 1 and substring(key from 7)::integer % 10 >= $1`,
    [names.length],
  )
  // Otherwise nothing was tried. A few kills may all fall between two orders.
  if (long) expect(orphans.length).toBeGreaterThan(kills / 4)
  process.stdout.write(
    `${orphans.length} keys lost their holder; longest a key was stuck past its lease: ${Math.round(longestMs)} ms; sweeps every ${everyMs} ms\n`,
  )
})
