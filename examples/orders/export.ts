// Long work: the client gets 202 and an address to ask at, and a worker does it, in this process or any other.
import { type Once, reply } from 'oncekey'
import type { Connection } from 'oncekey/postgres'

export function exportOrders<Tx>(once: Once<Tx>, database: Connection<Tx>) {
  return once.operation('orders.export', {}, async (run) => {
    const { rows } = await run.phase('orders_collected', async (tx) => {
      const orders = await database.within(tx).query('select id::text as id, item, cents, charge_id, refund_id from orders order by id', [])
      const lines = orders.map(({ id, item, cents, charge_id, refund_id }) => [id, item, cents, charge_id, refund_id].map(cell).join(','))
      const csv = ['order,item,cents,charge,refund', ...lines, ''].join('\n')
      await database.within(tx).query('insert into exports (id, csv) values ($1::uuid, $2)', [run.incarnation, csv])
      return { rows: orders.length }
    })
    return reply(201, { orders: rows, file: `/exports/${run.incarnation}` }, { location: `/exports/${run.incarnation}` })
  })
}

const cell = (value: unknown) => `"${String(value ?? '').replaceAll('"', '""')}"`
