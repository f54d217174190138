// A process that is delivered messages, all at once and each several times. It may be told to die by a real SIGKILL at a crash point.
import pg from 'pg'
import { createOnce } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { crashAt } from '../../src/testing/index.js'
import { childSettings, tellParent, wordFromParent } from '../support/in-child.js'

const { url, ids, deliveries, crashPoint } = childSettings<{ url: string; ids: string[]; deliveries: number; crashPoint?: number }>()

const pool = new pg.Pool({ connectionString: url, max: 5 })
const once = createOnce({ store: postgresStore(fromPg(pool)), storeTimeout: '60s' })
const consumer = once.consumer('payments', { tenant: 't' }, async (tx, message) => {
  await tx.query('insert into payments (message) values ($1)', [message.id])
})
await pool.query('select 1')
tellParent('ready')
await wordFromParent()
const disarm = crashPoint === undefined ? undefined : crashAt(crashPoint, () => process.kill(process.pid, 'SIGKILL'))
const delivered = Array.from({ length: deliveries }, () => ids).flat()
const outcomes = await Promise.all(delivered.map((id) => consumer.handle({ id, body: null })))
disarm?.()
tellParent(outcomes.map(({ kind }) => kind))
await pool.end()
process.disconnect()
