// The database, the operation, and the stand-in for a payment provider. To import it connects to nothing: `next build` does that, too.
import { setTimeout } from 'node:timers/promises'
import { createOnce, reply } from 'oncekey'
import { fromPg, migrate, postgresStore } from 'oncekey/postgres'
import { workers } from 'oncekey/workers'
import pg from 'pg'
import { z } from 'zod'

export const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })
pool.on('error', (error) => console.error('a connection broke:', error.message))
const database = fromPg(pool)

const once = createOnce({ store: postgresStore(database), logger: console })

export const createOrder = once.operation(
  'orders.create',
  { input: z.object({ item: z.string() }), retention: '72h' },
  async (run, { item }) => {
    // Your row, the phase's result and the recovery point are one commit. A resumed run gets the result, and no second row.
    const order = await run.phase('order_created', async (tx) => {
      const { rows } = await tx.query<{ id: string }>('insert into orders (item) values ($1) returning id', [item])
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

/** STAND-IN for your payment provider. It knows idempotency keys, as Stripe and Adyen do, and remembers them in a table of its own. */
const provider = {
  async charge(item: string, { idempotencyKey, signal }: { idempotencyKey: string; signal: AbortSignal }) {
    await pool.query('insert into provider_charges (key, item) values ($1, $2) on conflict do nothing', [idempotencyKey, item])
    if (item === 'slow') await setTimeout(2_000, undefined, { signal })
    return { id: `ch_${idempotencyKey.slice(0, 8)}`, declined: item === 'declined' }
  },
}

/** Once for each process, by instrumentation.ts. The workers finish orders whose clients never come back. */
export async function prepare() {
  await migrate(database)
  await pool.query(`
    create table if not exists orders (id uuid primary key default gen_random_uuid(), item text not null, charge text);
    create table if not exists provider_charges (key text primary key, item text not null)`)
  const background = workers(once)
  background.start()
  return background
}
