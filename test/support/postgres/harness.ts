import { type Connection, type PostgresStoreOptions, postgresStore } from '../../../src/stores/postgres/index.js'
import type { StoreHarness } from '../../../src/testing/index.js'

const quoted = ({ schema = 'oncekey' }: PostgresStoreOptions) => `"${schema.replaceAll('"', '""')}"`

/** Connections to databases that have a table for marks. */
const marked = new WeakSet<object>()

/**
 * For tests that need nothing of those before them: a harness whose tables are empty. `advance()` moves every row that there is, which
 * takes longer than the test where hundreds of others have left theirs.
 */
export async function emptyHarness<Tx>(connection: Connection<Tx>, options: PostgresStoreOptions = {}): Promise<StoreHarness<Tx>> {
  // Not a truncate, which makes new files of all of them.
  for (const table of ['keys', 'steps', 'jobs', 'audit']) await connection.query(`delete from ${quoted(options)}.${table}`, [])
  return postgresHarness(connection, options)
}

/** What `exerciseStore()` needs of a Postgres store, over any connection. */
export async function postgresHarness<Tx>(connection: Connection<Tx>, options: PostgresStoreOptions = {}): Promise<StoreHarness<Tx>> {
  const schema = quoted(options)
  if (!marked.has(connection)) await connection.query('create table if not exists marks (mark text primary key)', [])
  marked.add(connection)
  return {
    store: postgresStore(connection, options),
    // Every moment a store keeps is compared with the database's clock, so rows that are moved back live later.
    async advance(ms) {
      const past = (column: string) => `${column} = ${column} - $1::float8 * interval '1 millisecond'`
      const columns = ['created_at', 'expires_at', 'reap_after', 'locked_until', 'due_at']
      await connection.query(`update ${schema}.keys set ${columns.map(past).join(', ')}`, [ms])
      const ofJobs = ['staged_at', 'due_at', 'locked_until', 'dead_at']
      await connection.query(`update ${schema}.jobs set ${ofJobs.map(past).join(', ')}`, [ms])
      await connection.query(`update ${schema}.upkeep set ${['frontier', 'held_until'].map(past).join(', ')}`, [ms])
    },
    marks: {
      async leave(tx, mark) {
        await connection.within(tx).query('insert into marks values ($1)', [mark])
      },
      async exists(mark) {
        return (await connection.query('select 1 as found from marks where mark = $1', [mark])).length === 1
      },
    },
  }
}
