import { isOncekeyError } from '../../core/errors.js'
import type { Connection, Queryable } from '../../stores/postgres/connections/connection.js'
import { isConnectionFailure, isRefusedLogin, translated } from '../../stores/postgres/driver-errors.js'
import { databaseNow } from '../../stores/postgres/queries/key-row.js'
import { CommandError, wrongUsage } from '../exit-codes.js'
import { type DataRecord, recordOf } from './record.js'

/** A page holds about this many bytes, so that long rows come a few at a time. */
const pageLength = 1_048_576
const firstRows = 10
const mostRows = 1_000
const numbers = new Set(['smallint', 'integer', 'bigint', 'numeric', 'real', 'double precision'])

/** The rows of a query as records, sorted by a column as `reconcile()` sorts: through a cursor, so that they need not fit into memory. */
export async function* recordsOfQuery(db: Queryable, sql: string, path: readonly string[]): AsyncGenerator<DataRecord, void, undefined> {
  const [column = '', ...deeper] = path
  if (deeper.length > 0)
    throw wrongUsage(`The key of a query is a column, not ${path.join('.')}: give the value its own name in the query.`)
  const key = `"${column.replaceAll('"', '""')}"`
  // On its own line: the query may end with a line comment.
  const rows = `(${sql.trim().replace(/;$/, '')}\n) as row`
  const [{ type } = { type: '' }] = await db.query(`select pg_typeof((select row.${key} from ${rows} limit 0))::text as type where $1`, [
    true,
  ])
  const order = numbers.has(type) ? `row.${key}` : `row.${key}::text collate "C"`
  // With a parameter it must be one statement: the text cannot end our read-only transaction and continue outside it.
  await db.query(
    `declare oncekey_rows no scroll cursor for select row_to_json(row)::text as line from ${rows} where $1 order by ${order}`,
    [true],
  )
  let read = 0
  for (let wanted = firstRows; ; ) {
    const page = await db.query(`fetch ${wanted} from oncekey_rows`, [])
    let length = 0
    for (const { line } of page) {
      read += 1
      length += line.length
      yield recordOf(line, `row ${read} of the query`)
    }
    if (page.length < wanted) return
    const fitting = Math.floor((pageLength * wanted) / length)
    wanted = Math.max(1, Math.min(fitting, 4 * wanted, mostRows))
  }
}

/** One read-only transaction around `work`, and the database's time. */
export async function reading<Tx, T>(connection: Connection<Tx>, work: (db: Queryable, now: number) => Promise<T>): Promise<T> {
  try {
    return await connection.transaction(async (tx) => {
      const db = connection.within(tx)
      await db.query('set transaction read only', [])
      const [row] = await db.query(`select ${databaseNow}`, [])
      return work(db, row?.now as number)
    })
  } catch (error) {
    // The server's message on the query is for its author.
    const { code, message } = error as { code?: unknown; message?: string }
    if (typeof code !== 'string' || error instanceof CommandError || isOncekeyError(error)) throw error
    throw isConnectionFailure(error) || isRefusedLogin(error) ? translated(error, '') : wrongUsage(`The query failed: ${message}`)
  }
}
