// Read this first. An order is a row of ours, a charge at somebody else's, and a receipt. No transaction spans them all, so the request is
// made of steps: a crash anywhere goes on after the last one that was committed.
import { type Once, reply } from 'oncekey'
import type { Connection } from 'oncekey/postgres'
import { z } from 'zod'
import type { Payments } from './payments.js'

export const OrderInput = z.object({
  item: z.string().min(1),
  cents: z.int().positive(),
  customer: z.string().min(1),
})

export function createOrder<Tx>(once: Once<Tx>, database: Connection<Tx>, payments: Payments) {
  return once.operation('orders.create', { input: OrderInput, retention: '72h' }, async (run, { item, cents, customer }) => {
    // The row, this step's result and the recovery point are one commit.
    const order = await run.phase('order_created', async (tx) => {
      const [row] = await database
        .within(tx)
        .query('insert into orders (item, cents, customer) values ($1, $2, $3) returning id::text as id', [item, cents, customer])
      return { id: row?.id as string }
    })

    // No transaction is open here. The key is made for this call and is the same in every attempt: if we die right after the charge, the
    // next attempt sends it again, and the provider answers with the charge that it has made.
    const charge = await run.call(
      'charge_created',
      ({ key, signal }) => payments.charge({ customer, cents, reference: order.id }, { key, signal }),
      { timeout: '30s' },
    )
    // An answer like any other: stored, and the same for every retry.
    if (charge.declined) return reply(402, { error: 'card_declined', order: order.id })

    // The charge, the receipt to be sent and the answer are one commit.
    return run.finish(async (tx) => {
      await database.within(tx).query('update orders set charge_id = $2 where id = $1::uuid', [order.id, charge.id])
      await run.stage(tx, 'send_receipt', { order: order.id, to: customer })
      return reply(201, { id: order.id, item, cents, charge: charge.id }, { location: `/orders/${order.id}` })
    })
  })
}

const NoteInput = z.object({ order: z.uuid(), note: z.string().max(200) })

/** Touches our own database only, so key, work and answer are one transaction, and there is nothing to resume. */
export function changeNote<Tx>(once: Once<Tx>, database: Connection<Tx>) {
  return once.local('orders.change_note', { input: NoteInput }, async (tx, { order, note }) => {
    const rows = await database.within(tx).query('update orders set note = $2 where id = $1::uuid returning id', [order, note])
    return rows.length === 0 ? reply(404, { error: 'order_unknown' }) : reply(200, { id: order, note })
  })
}
