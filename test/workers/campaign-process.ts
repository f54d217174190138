// A process that serves orders and does background work, until it is killed.
import pg from 'pg'
import { workers } from '../../src/workers/index.js'
import { ordersService } from '../phases/orders.js'
import { seededRandom } from '../phases/seeded-random.js'
import { childSettings, tellParent } from '../support/in-child.js'

const { url, provider, orders, seed, leaseMs, everyMs } = childSettings<{
  url: string
  provider: string
  /** How many there are, by number. */
  orders: number
  seed: number
  leaseMs: number
  everyMs: number
}>()
const random = seededRandom(seed)
const pool = new pg.Pool({ connectionString: url, max: 8 })
const { once, createOrder } = ordersService(pool, provider, 'resend', { lease: leaseMs })
workers(once, { sweeper: { every: everyMs }, completer: { every: 200, slots: 8 }, reaper: { every: everyMs, batch: 200 } }).start()
await pool.query('select 1')
tellParent('started')

/** Clients that send each order once and never come back: whatever becomes of it is for the workers. */
const first = Math.floor(random() * orders)
for (let sent = 0; sent < orders; sent += 1) {
  const id = `order-${(first + sent) % orders}`
  await createOrder.run({ tenant: 'campaign', key: id, input: { id } }).catch(() => {})
}
