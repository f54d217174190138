// Orders on Hono and postgres.js: each is made and charged once, whatever retries, races and crashes come.
import { setTimeout } from 'node:timers/promises'
import { serve as listen } from '@hono/node-server'
import { Hono } from 'hono'
import { createOnce, reply } from 'oncekey'
import { serve } from 'oncekey/hono'
import { fromPostgresJs, migrate, postgresStore } from 'oncekey/postgres'
import { workers } from 'oncekey/workers'
import postgres from 'postgres'
import { z } from 'zod'

const sql = postgres(process.env.DATABASE_URL ?? '', { onnotice: () => {} })

const database = fromPostgresJs(sql)
await migrate(database)
await sql`create table if not exists orders (id uuid primary key default gen_random_uuid(), item text not null, charge text)`
await sql`create table if not exists provider_charges (key text primary key, item text not null)`

const once = createOnce({ store: postgresStore(database), logger: console })

const createOrder = once.operation('orders.create', { input: z.object({ item: z.string() }), retention: '72h' }, async (run, { item }) => {
  // Your row, the phase's result and the recovery point are one commit. A resumed run gets the result, and no second row.
  const order = await run.phase('order_created', async (tx) => {
    const [row] = await tx<[{ id: string }]>`insert into orders (item) values (${item}) returning id`
    return row
  })
  // No transaction is open here. `key` is the same in every attempt, so a crash right after the charge is no second charge.
  const charge = await run.call('charge_created', ({ key, signal }) => provider.charge(item, { idempotencyKey: key, signal }), {
    timeout: '30s',
  })
  if (charge.declined) return reply(402, { error: 'card_declined' }) // an answer like any other: stored, replayed

  return run.finish(async (tx) => {
    await tx`update orders set charge = ${charge.id} where id = ${order.id}`
    return reply(201, { id: order.id, item, charge: charge.id })
  })
})

/** STAND-IN for your payment provider. It knows idempotency keys, as Stripe and Adyen do, and remembers them in a table of its own. */
const provider = {
  async charge(item: string, { idempotencyKey, signal }: { idempotencyKey: string; signal: AbortSignal }) {
    await sql`insert into provider_charges (key, item) values (${idempotencyKey}, ${item}) on conflict do nothing`
    if (item === 'slow') await setTimeout(2_000, undefined, { signal })
    return { id: `ch_${idempotencyKey.slice(0, 8)}`, declined: item === 'declined' }
  },
}

const app = new Hono()
app.post('/orders', serve(createOrder, { tenant: 'single' }))
app.get('/orders', async (c) => c.json(await sql`select id, item, charge from orders`))

const port = Number(process.env.PORT ?? 3000)
const server = listen({ fetch: app.fetch, port }, () => console.log(`Ready on http://localhost:${port}`))

// Finishes orders whose clients never come back. On SIGTERM, what is under way is finished here or given back to another process.
const background = workers(once)
background.start()
process.once('SIGTERM', async () => {
  server.close()
  await Promise.all([background.stop(), once.stop({ within: '20s' })])
  await sql.end()
})
