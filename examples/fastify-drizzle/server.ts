// Orders on Fastify and Drizzle: each is made and charged once, whatever retries, races and crashes come.
import { setTimeout } from 'node:timers/promises'
import { eq, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import Fastify from 'fastify'
import { createOnce, reply } from 'oncekey'
import { serve } from 'oncekey/fastify'
import { fromDrizzle, migrate, postgresStore } from 'oncekey/postgres'
import { workers } from 'oncekey/workers'
import pg from 'pg'
import { z } from 'zod'
import { orders, providerCharges, tables } from './schema.js'

const app = Fastify({ logger: { level: 'warn' } })

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })
// Both: Drizzle does not listen on the connections that it has taken, and one that breaks would end the process.
pool.on('error', (error) => app.log.warn(error))
pool.on('connect', (client) => client.on('error', (error) => app.log.warn(error)))

const db = drizzle(pool, { schema: { orders, providerCharges } })
/** What a phase is given: Drizzle's own transaction, with your schema. */
type Tx = Parameters<Parameters<typeof db.transaction>[0]>[0]

const database = fromDrizzle(db, sql)
await migrate(database)
await db.execute(tables)

const once = createOnce({ store: postgresStore(database), logger: app.log })

const createOrder = once.operation('orders.create', { input: z.object({ item: z.string() }), retention: '72h' }, async (run, { item }) => {
  // Your row, the phase's result and the recovery point are one commit. A resumed run gets the result, and no second row.
  const order = await run.phase('order_created', (tx) => insertOrder(tx, item))
  // No transaction is open here. `key` is the same in every attempt, so a crash right after the charge is no second charge.
  const charge = await run.call('charge_created', ({ key, signal }) => provider.charge(item, { idempotencyKey: key, signal }), {
    timeout: '30s',
  })
  if (charge.declined) return reply(402, { error: 'card_declined' }) // an answer like any other: stored, replayed

  return run.finish(async (tx) => {
    await tx.update(orders).set({ charge: charge.id }).where(eq(orders.id, order.id))
    return reply(201, { id: order.id, item, charge: charge.id })
  })
})

async function insertOrder(tx: Tx, item: string) {
  const [order] = await tx.insert(orders).values({ item }).returning({ id: orders.id })
  if (!order) throw new Error('an insert returns its row')
  return order
}

/** STAND-IN for your payment provider. It knows idempotency keys, as Stripe and Adyen do, and remembers them in a table of its own. */
const provider = {
  async charge(item: string, { idempotencyKey, signal }: { idempotencyKey: string; signal: AbortSignal }) {
    await db.insert(providerCharges).values({ key: idempotencyKey, item }).onConflictDoNothing()
    if (item === 'slow') await setTimeout(2_000, undefined, { signal })
    return { id: `ch_${idempotencyKey.slice(0, 8)}`, declined: item === 'declined' }
  },
}

app.post('/orders', serve(createOrder, { tenant: 'single' }))
app.get('/orders', () => db.query.orders.findMany())

// Finishes orders whose clients never come back.
const background = workers(once)
background.start()
// What is under way is finished here, or given back to another process.
app.addHook('preClose', async () => {
  await Promise.all([background.stop(), once.stop({ within: '20s' })])
})
app.addHook('onClose', () => pool.end())
process.once('SIGTERM', () => void app.close())

const port = Number(process.env.PORT ?? 3000)
await app.listen({ port })
console.log(`Ready on http://localhost:${port}`)
