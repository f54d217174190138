// A process that delivers jobs: into a table, or, with `asks`, when the test says so.
import pg from 'pg'
import { createOnce } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { relay } from '../../src/workers/index.js'
import { childSettings, tellParent, wordFromParent } from '../support/in-child.js'

const {
  url,
  leaseMs,
  asks = false,
} = childSettings<{
  url: string
  leaseMs: number
  asks?: boolean
}>()
const pool = new pg.Pool({ connectionString: url, max: 8 })
// The test ends sessions on purpose.
pool.on('error', () => {})
const once = createOnce({
  store: postgresStore(fromPg(pool)),
  onEvent: (event) => {
    if (asks && 'job' in event) tellParent(event.type)
  },
})
await pool.query('select 1')
tellParent('started')
relay(once, {
  ...{ every: 100, batch: 50, lease: leaseMs, backoff: { first: 10, most: 200 } },
  async sink({ id, payload, group }) {
    if (asks) {
      tellParent('delivering')
      await wordFromParent()
      return
    }
    const { label, number } = payload as { label: string; number: number }
    await pool.query('insert into deliveries (id, label, number, job_group) values ($1, $2, $3, $4)', [id, label, number, group])
  },
}).start()
// The relay does not keep a process alive that has nothing else to do.
setInterval(() => {}, 60_000)
