import type pg from 'pg'
import { createOnce, type Once, type OnceOptions } from '../../src/index.js'
import { type PostgresStoreOptions, postgresStore } from '../../src/stores/postgres/index.js'
import { connectionTo } from '../support/postgres/connection.js'
import type { TestDatabase } from '../support/postgres/database.js'

/** A service on the test's database, with a table of its own and a way to let leases run out. */
export async function setup(database: TestDatabase, options: Omit<OnceOptions<pg.PoolClient>, 'store'> & PostgresStoreOptions = {}) {
  const { pool } = database
  await database.ensure('create table if not exists things (id text primary key, note text)')
  const events: string[] = []
  const newOnce = (): Once<pg.PoolClient> =>
    createOnce({ store: postgresStore(connectionTo(pool), options), onEvent: ({ type }) => void events.push(type), ...options })
  const tenant = `tenant-${crypto.randomUUID()}`

  return {
    pool,
    tenant,
    events,
    once: newOnce(),
    /** Another process, or this one after a deploy. */
    newOnce,
    /** What a client that retries for ever would see the end of. */
    insert: (tx: pg.PoolClient, id: string) => tx.query('insert into things (id) values ($1)', [id]),
    async things() {
      return (await pool.query<{ id: string }>('select id from things order by id')).rows.map(({ id }) => id)
    },
    async key(key: string) {
      const { rows } = await pool.query(
        'select state, fence, recovery_point, reason, parked_step from oncekey.keys where tenant = $1 and key = $2',
        [tenant, key],
      )
      return rows[0] as { state: string; fence: number; recovery_point: string | null; reason: string | null; parked_step: string | null }
    },
    async steps() {
      const { rows } = await pool.query('select name, kind, result from oncekey.steps where tenant = $1 order by position', [tenant])
      return rows as { name: string; kind: string; result: string | null }[]
    },
    /** Lets time pass, for leases and for what was recorded. */
    async advance(ms: number) {
      const back = `- ${ms} * interval '1 millisecond'`
      await pool.query(`update oncekey.keys set locked_until = locked_until ${back}, created_at = created_at ${back} where tenant = $1`, [
        tenant,
      ])
      await pool.query(`update oncekey.steps set recorded_at = recorded_at ${back} where tenant = $1`, [tenant])
    },
  }
}
