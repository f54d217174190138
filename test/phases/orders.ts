// The orders service of the tests: create an order, charge the customer, stage a receipt.

import type pg from 'pg'
import { type CallOptions, createOnce, type Duration, reply } from '../../src/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { connectionTo } from '../support/postgres/connection.js'

export type WhenUnknown = 'resend' | 'park' | 'lookup'

interface Charge {
  id: string
  key: string
}

export const ordersTable = 'create table if not exists orders (id text primary key, charge_id text)'

export function ordersService(
  pool: pg.Pool,
  provider: string,
  whenUnknown: WhenUnknown,
  { lease = '10m', audit = false }: { lease?: Duration; audit?: boolean } = {},
) {
  const once = createOnce({ store: postgresStore(connectionTo(pool), { audit }), lease })
  const policies: Record<WhenUnknown, CallOptions<Charge>> = {
    resend: {},
    park: { whenUnknown: 'park' },
    lookup: {
      settle: 1,
      whenUnknown: async ({ key }) => {
        const [charge] = (await (await fetch(`${provider}?key=${key}`)).json()) as Charge[]
        return charge ? { as: 'happened', result: charge } : { as: 'did-not-happen' }
      },
    },
  }
  const createOrder = once.operation('orders.create', {}, async (run, input) => {
    const { id } = input as { id: string }
    const order = await run.phase('order_created', async (tx) => {
      await tx.query('insert into orders (id) values ($1)', [id])
      return { id }
    })
    const charge = await run.call(
      'charge_created',
      async ({ key, signal }) => {
        const response = await fetch(provider, {
          method: 'POST',
          headers: { 'idempotency-key': key },
          body: JSON.stringify({ order: order.id }),
          signal,
        })
        return (await response.json()) as Charge
      },
      policies[whenUnknown],
    )
    return run.finish(async (tx) => {
      await tx.query('update orders set charge_id = $2 where id = $1', [order.id, charge.id])
      await run.stage(tx, 'send_receipt', { order: order.id })
      return reply(201, { id: order.id, charge: charge.id }, { location: `/orders/${order.id}` })
    })
  })
  return { once, createOrder }
}

/** What is left of an order: rows, charges at the provider, staged receipts, and the key's state. */
export async function traces(pool: pg.Pool, provider: string, id: string) {
  const orders = await pool.query('select charge_id from orders where id = $1', [id])
  const charges = (await (await fetch(`${provider}?order=${id}`)).json()) as Charge[]
  const receipts = await pool.query(`select 1 from oncekey.jobs where payload::json ->> 'order' = $1`, [id])
  const keys = await pool.query('select state from oncekey.keys where key = $1', [id])
  return { orders: orders.rows.length, charges: charges.length, receipts: receipts.rows.length, state: keys.rows[0]?.state as string }
}
