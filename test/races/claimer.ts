// A process full of claimers. It waits at the barrier with all the others, then claims every key at once.
import pg from 'pg'
import { createOnce, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { childSettings, tellParent } from '../support/in-child.js'

const { url, keys, claimersPerKey, connections, barrier } = childSettings<ClaimerSettings>()

export interface ClaimerSettings {
  url: string
  keys: string[]
  claimersPerKey: number
  connections: number
  /** An advisory lock that the test holds until everybody is there. */
  barrier: number
}

const pool = new pg.Pool({ connectionString: url, max: connections })
const once = createOnce({ store: postgresStore(fromPg(pool)), storeTimeout: '120s', lease: '120s' })

// Every connection is open before the start, so that the claims really meet.
const opened = await Promise.all(Array.from({ length: connections }, () => pool.connect()))
for (const client of opened) client.release()

const gate = new pg.Client({ connectionString: url })
await gate.connect()
tellParent('ready')
await gate.query('select pg_advisory_lock_shared($1)', [barrier])

const counts: Record<string, number> = {}
const claims = keys.flatMap((key) => Array.from({ length: claimersPerKey }, () => key))
const claimers = Array.from({ length: connections }, async () => {
  for (let key = claims.shift(); key !== undefined; key = claims.shift()) {
    const { kind } = await once.execute(
      { tenant: 'race', scope: 'race', key, fingerprint: { value: key }, afterFailure: 'rerun' },
      async () => {
        await pool.query('insert into runs (key) values ($1)', [key])
        return reply(201, { key })
      },
    )
    counts[kind] = (counts[kind] ?? 0) + 1
  }
})
await Promise.all(claimers)
tellParent(counts)
await Promise.all([gate.end(), pool.end()])
