// Orders on Express and pg: each is made and charged once, whatever retries, races and crashes come.
import { setTimeout } from 'node:timers/promises'
import express, { type Request, type RequestHandler } from 'express'
import { createOnce, reply } from 'oncekey'
import { serve } from 'oncekey/express'
import { fromPg, migrate, postgresStore } from 'oncekey/postgres'
import { workers } from 'oncekey/workers'
import pg from 'pg'
import { z } from 'zod'

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })
pool.on('error', (error) => console.error('a connection broke:', error.message))

const database = fromPg(pool)
await migrate(database)
await pool.query(`
  create table if not exists orders (id uuid primary key default gen_random_uuid(), customer text not null, item text not null, charge text);
  create table if not exists provider_charges (key text primary key, item text not null)`)

const once = createOnce({ store: postgresStore(database), logger: console })

const createOrder = once.operation(
  'orders.create',
  { input: z.object({ customer: z.string(), item: z.string() }), retention: '72h' },
  async (run, { customer, item }) => {
    // Your row, the phase's result and the recovery point are one commit. A resumed run gets the result, and no second row.
    const order = await run.phase('order_created', async (tx) => {
      const { rows } = await tx.query<{ id: string }>('insert into orders (customer, item) values ($1, $2) returning id', [customer, item])
      return { id: rows[0]?.id }
    })
    // No transaction is open here. `key` is the same in every attempt, so a crash right after the charge is no second charge.
    const charge = await run.call('charge_created', ({ key, signal }) => provider.charge(item, { idempotencyKey: key, signal }), {
      timeout: '30s',
    })
    if (charge.declined) return reply(402, { error: 'card_declined' }) // an answer like any other: stored, replayed

    return run.finish(async (tx) => {
      await tx.query('update orders set charge = $2 where id = $1', [order.id, charge.id])
      return reply(201, { id: order.id, item, charge: charge.id })
    })
  },
)

/** STAND-IN for your authentication: keys belong to the user that it has found, so it comes first. */
const userOf = (req: Request) => req.header('authorization')?.replace('Bearer ', '') ?? ''
const authenticate: RequestHandler = (req, res, next) => (userOf(req) ? next() : void res.sendStatus(401))

/** STAND-IN for your payment provider. It knows idempotency keys, as Stripe and Adyen do, and remembers them in a table of its own. */
const provider = {
  async charge(item: string, { idempotencyKey, signal }: { idempotencyKey: string; signal: AbortSignal }) {
    await pool.query('insert into provider_charges (key, item) values ($1, $2) on conflict do nothing', [idempotencyKey, item])
    if (item === 'slow') await setTimeout(2_000, undefined, { signal })
    return { id: `ch_${idempotencyKey.slice(0, 8)}`, declined: item === 'declined' }
  },
}

const app = express()
app.use(authenticate)
app.post(
  '/orders',
  serve(createOrder, {
    tenant: userOf,
    input: (req, body) => ({ ...(body as object), customer: userOf(req) }),
  }),
)
app.get('/orders', async (req, res) => {
  const { rows } = await pool.query('select id, item, charge from orders where customer = $1', [userOf(req)])
  res.json(rows)
})

const port = Number(process.env.PORT ?? 3000)
const server = app.listen(port, (error) => {
  if (error) throw error
  console.log(`Ready on http://localhost:${port}`)
})

// Finishes orders whose clients never come back. On SIGTERM, what is under way is finished here or given back to another process.
const background = workers(once)
background.start()
process.once('SIGTERM', async () => {
  server.close()
  await Promise.all([background.stop(), once.stop({ within: '20s' })])
  await pool.end()
})
