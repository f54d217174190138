// A refund calls the provider too. It is refused when there is nothing to give back, or when another request is giving it back.
import { type Once, reply } from 'oncekey'
import type { Connection } from 'oncekey/postgres'
import { z } from 'zod'
import type { Payments } from './payments.js'

const RefundInput = z.object({ order: z.uuid() })

export function refundOrder<Tx>(once: Once<Tx>, database: Connection<Tx>, payments: Payments) {
  return once.operation('orders.refund', { input: RefundInput, retention: '72h' }, async (run, { order }) => {
    // Two people refund one order at the same moment, each with a key of their own: idempotency keys do not tell them apart, the row does.
    // Whose key is in it may go on, and after a crash it is still that one.
    const begun = await run.phase('refund_begun', async (tx) => {
      const db = database.within(tx)
      const [row] = await db.query('select charge_id, refund_key from orders where id = $1::uuid for update', [order])
      if (!row) return { refused: 'order_unknown' as const }
      if (row.charge_id === null) return { refused: 'not_charged' as const }
      if (row.refund_key !== null) return { refused: 'already_refunded' as const }
      await db.query('update orders set refund_key = $2 where id = $1::uuid', [order, run.incarnation])
      return { charge: row.charge_id as string }
    })
    if (begun.refused !== undefined) return reply(begun.refused === 'order_unknown' ? 404 : 409, { error: begun.refused })

    const refund = await run.call('refund_created', ({ key, signal }) => payments.refund(begun.charge, { key, signal }), { timeout: '30s' })

    return run.finish(async (tx) => {
      await database.within(tx).query('update orders set refund_id = $2 where id = $1::uuid', [order, refund.id])
      return reply(200, { id: order, refund: refund.id })
    })
  })
}
