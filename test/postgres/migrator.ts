// A process that migrates when it is told to.
import pg from 'pg'
import { fromPg, migrate } from '../../src/stores/postgres/index.js'
import { childSettings, tellParent, wordFromParent } from '../support/in-child.js'

const { url, schema } = childSettings<{ url: string; schema: string }>()
const pool = new pg.Pool({ connectionString: url, max: 1 })
await pool.query('select 1')
const told = wordFromParent()
tellParent('ready')
await told
tellParent(await migrate(fromPg(pool), { schema }).catch((error: unknown) => ({ error: String(error) })))
await pool.end()
process.disconnect()
