// A process that is frozen by its test in the middle of a phase, with its row inserted and its transaction open.
import pg from 'pg'
import { createOnce, isOncekeyError, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { childSettings, tellParent, wordFromParent } from '../support/in-child.js'

const { url } = childSettings<{ url: string }>()
const pool = new pg.Pool({ connectionString: url })
const once = createOnce({ store: postgresStore(fromPg(pool)), lease: '1s' })
const told = wordFromParent()
const operation = once.operation('zombie', {}, async (run) => {
  await run.phase('ordered', async (tx) => {
    await tx.query(`insert into things (id, note) values ('zombie-1', 'by the zombie')`)
    tellParent('in the phase')
    await told
  })
  return reply(201, { by: 'the zombie' })
})
const result = await operation
  .run({ tenant: 'zombies', key: 'k', input: null })
  .catch((error: unknown) => ({ code: isOncekeyError(error) ? error.code : String(error) }))
tellParent(result)
await pool.end()
process.disconnect()
