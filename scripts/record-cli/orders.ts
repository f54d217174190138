// A process that makes one order, as a service would. If it is told a crash point, it is killed there.
import process from 'node:process'
import pg from 'pg'
import { armCrashPoints } from '../../src/core/crash-points.js'
import { createOnce, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'

const [key = '', how, crashAt] = process.argv.slice(2)
const provider = process.env.PROVIDER_URL as string
const retention = key === 'order-0' ? '1s' : '24h'
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })
const once = createOnce({ store: postgresStore(fromPg(pool), { audit: true }), lease: '2s' })

const createOrder = once.operation('orders.create', { retention }, async (run) => {
  // A deploy that gives a step another name.
  const order = await run.phase(how === 'renamed' ? 'order_inserted' : 'order_created', async (tx) => {
    const { rows } = await tx.query<{ id: number }>('insert into orders (item) values ($1) returning id', ['tea'])
    return { id: rows[0]?.id }
  })
  const charge = await run.call(
    'charge_created',
    async ({ key: derivedKey, signal }) => {
      const headers = { 'idempotency-key': derivedKey }
      return (await fetch(provider, { method: 'POST', headers, body: key, signal })).json() as Promise<{ id: string }>
    },
    { whenUnknown: how === 'park' ? 'park' : 'resend' },
  )
  return run.finish(async (tx) => {
    await tx.query('update orders set charge_id = $2 where id = $1', [order.id, charge.id])
    await run.stage(tx, 'send_receipt', { order: order.id })
    return reply(201, { id: order.id, charge: charge.id }, { location: `/orders/${order.id}` })
  })
})

armCrashPoints((point) => {
  if (point === crashAt) process.kill(process.pid, 'SIGKILL')
})
await createOrder.run({ tenant: 'acme', key, input: { item: 'tea' }, wait: '10s' })
await pool.end()
