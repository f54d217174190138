// The orders service itself: create an order, charge the customer, stage a receipt. A crash anywhere resumes it.
import { createOnce, reply } from 'oncekey'
import { type Connection, postgresStore } from 'oncekey/postgres'

/** A payment provider that honours idempotency keys, as Stripe and Adyen do. */
export interface Provider {
  charge(
    order: { id: string; item: string },
    options: { idempotencyKey: string; signal: AbortSignal },
  ): Promise<{ id: string; declined: boolean }>
}

export const tables = `
  create table if not exists orders (id uuid primary key default gen_random_uuid(), item text not null, charge_id text)`

interface OrderInput {
  item: string
}

export function ordersService<Tx>(database: Connection<Tx>, provider: Provider) {
  const once = createOnce({ store: postgresStore(database, { audit: true }), retention: '24h', lease: '5s' })

  const createOrder = once.operation('orders.create', {}, async (run, input) => {
    const { item } = input as OrderInput
    const order = await run.phase('order_created', async (tx) => {
      const [row] = await database.within(tx).query('insert into orders (item) values ($1) returning id::text as id', [item])
      return { id: row?.id as string, item }
    })
    const charge = await run.call('charge_created', ({ key, signal }) => provider.charge(order, { idempotencyKey: key, signal }), {
      timeout: '30s',
    })
    if (charge.declined) return reply(402, { error: 'card_declined' })
    return run.finish(async (tx) => {
      await database.within(tx).query('update orders set charge_id = $2 where id = $1::uuid', [order.id, charge.id])
      await run.stage(tx, 'send_receipt', { orderId: order.id })
      return reply(201, { id: order.id, item, charge: charge.id }, { location: `/orders/${order.id}` })
    })
  })

  return { once, createOrder }
}
