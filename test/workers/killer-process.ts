// A worker that carries out operations, of which one ends the process.
import pg from 'pg'
import { createOnce, reply } from '../../src/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { workers } from '../../src/workers/index.js'
import { childSettings } from '../support/in-child.js'
import { connectionTo } from '../support/postgres/connection.js'

const { url } = childSettings<{ url: string }>()
const pool = new pg.Pool({ connectionString: url, max: 8 })
const once = createOnce({ store: postgresStore(connectionTo(pool)), lease: 1_000 })
once.operation('killing', {}, async (_, input) => {
  // Long enough for all of them to have begun.
  await new Promise((resolve) => setTimeout(resolve, 100))
  if (input === 'kills') process.exit(1)
  return reply(201)
})
workers(once, { sweeper: { every: 200 }, completer: { every: 50, slots: 6, maxAttempts: 4 }, reaper: false }).start()
await pool.query('select 1')
setInterval(() => {}, 60_000)
