// A process that makes one order, and dies by a real SIGKILL at the crash point it is given.
import pg from 'pg'
import { crashAt } from '../../src/testing/index.js'
import { childSettings, tellParent } from '../support/in-child.js'
import { ordersService, type WhenUnknown } from './orders.js'

const { url, provider, whenUnknown, id, crashPoint, audit } = childSettings<{
  url: string
  provider: string
  whenUnknown: WhenUnknown
  id: string
  crashPoint: number
  audit?: boolean
}>()

const pool = new pg.Pool({ connectionString: url })
const { createOrder } = ordersService(pool, provider, whenUnknown, { audit: audit ?? false })
await pool.query('select 1')
const disarm = crashAt(crashPoint, () => process.kill(process.pid, 'SIGKILL'))
const { kind } = await createOrder.run({ tenant: 't', key: id, input: { id } })
disarm()
// Only reached when there is no crash point of that number any more.
tellParent(kind)
await pool.end()
process.disconnect()
