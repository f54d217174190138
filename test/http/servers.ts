import { onTestFinished } from 'vitest'
import { connectionTo } from '../support/postgres/connection.js'
import type { TestDatabase } from '../support/postgres/database.js'
import { postgresHarness } from '../support/postgres/harness.js'
import { waitUntil } from '../support/wait-until.js'
import type { Effect } from './server.js'
import { gate, processes } from './server-process.js'

/** For the test file that calls this: servers on its database, and a gate that all their work has to pass. */
export function useServers(database: TestDatabase) {
  const { pool } = database
  const start = processes(database)

  return async function setup() {
    await database.ensure('create table if not exists effects (key text not null, what text not null, pid integer not null)')
    const { advance } = await postgresHarness(connectionTo(pool))
    const keeper = await pool.connect()
    let closed = false
    const openGate = async () => {
      if (closed) await keeper.query('select pg_advisory_unlock($1)', [gate])
      closed = false
    }
    onTestFinished(async () => {
      await openGate()
      keeper.release()
    })

    async function keyState(key: string): Promise<string | undefined> {
      return (await pool.query('select state from oncekey.keys where key = $1', [key])).rows[0]?.state
    }

    return {
      advance,
      start,

      async closeGate() {
        await keeper.query('select pg_advisory_lock($1)', [gate])
        closed = true
      },
      openGate,
      /** Resolves when that many pieces of work stand at the gate. */
      async atGate(count: number) {
        await waitUntil(`${count} are at the gate`, async () => {
          const { rows } = await pool.query(
            `select count(*)::integer as waiting from pg_locks
             where locktype = 'advisory' and not granted and objid = $1
               and database = (select oid from pg_database where datname = current_database())`,
            [gate],
          )
          return rows[0].waiting === count
        })
      },

      /** What was done for a key, in the order of the alphabet. */
      async effects(key: string): Promise<Pick<Effect, 'what' | 'pid'>[]> {
        return (await pool.query('select what, pid from effects where key = $1 order by what, pid', [key])).rows
      },
      keyState,
      untilState: (key: string, state: string) => waitUntil(`the key is ${state}`, async () => (await keyState(key)) === state),
    }
  }
}
