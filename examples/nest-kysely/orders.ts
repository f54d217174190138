// The database, the operation, and the stand-in for a payment provider.
import { setTimeout } from 'node:timers/promises'
import { type Generated, Kysely, PostgresDialect, sql, type Transaction } from 'kysely'
import { createOnce, reply } from 'oncekey'
import { fromKysely, migrate, postgresStore } from 'oncekey/postgres'
import pg from 'pg'
import { z } from 'zod'

interface Tables {
  orders: { id: Generated<string>; item: string; charge: string | null }
  gift_cards: { id: Generated<string>; cents: number }
  provider_charges: { key: string; item: string }
}

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })
// Both: Kysely does not listen on the connections that it has taken, and one that breaks would end the process.
const complain = (error: Error) => console.error('a connection broke:', error.message)
pool.on('error', complain).on('connect', (client) => client.on('error', complain))

export const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) })
const database = fromKysely(db)
await migrate(database)
await sql`create table if not exists orders (id uuid primary key default gen_random_uuid(), item text not null, charge text)`.execute(db)
await sql`create table if not exists gift_cards (id uuid primary key default gen_random_uuid(), cents integer not null)`.execute(db)
await sql`create table if not exists provider_charges (key text primary key, item text not null)`.execute(db)

export const once = createOnce({ store: postgresStore(database), logger: console })

export const createOrder = once.operation(
  'orders.create',
  { input: z.object({ item: z.string() }), retention: '72h' },
  async (run, { item }) => {
    // Your row, the phase's result and the recovery point are one commit. A resumed run gets the result, and no second row.
    const order = await run.phase('order_created', (trx) => insertOrder(trx, item))
    // No transaction is open here. `key` is the same in every attempt, so a crash right after the charge is no second charge.
    const charge = await run.call('charge_created', ({ key, signal }) => provider.charge(item, { idempotencyKey: key, signal }), {
      timeout: '30s',
    })
    if (charge.declined) return reply(402, { error: 'card_declined' }) // an answer like any other: stored, replayed

    return run.finish(async (trx) => {
      await trx.updateTable('orders').set({ charge: charge.id }).where('id', '=', order.id).execute()
      return reply(201, { id: order.id, item, charge: charge.id })
    })
  },
)

const insertOrder = (trx: Transaction<Tables>, item: string) =>
  trx.insertInto('orders').values({ item }).returning('id').executeTakeFirstOrThrow()

/** STAND-IN for your payment provider. It knows idempotency keys, as Stripe and Adyen do, and remembers them in a table of its own. */
const provider = {
  async charge(item: string, { idempotencyKey, signal }: { idempotencyKey: string; signal: AbortSignal }) {
    await db
      .insertInto('provider_charges')
      .values({ key: idempotencyKey, item })
      .onConflict((conflict) => conflict.doNothing())
      .execute()
    if (item === 'slow') await setTimeout(2_000, undefined, { signal })
    return { id: `ch_${idempotencyKey.slice(0, 8)}`, declined: item === 'declined' }
  },
}
