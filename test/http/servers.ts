import { onTestFinished } from 'vitest'
import { fromPg } from '../../src/stores/postgres/index.js'
import { type Child, startChild } from '../support/child.js'
import type { TestDatabase } from '../support/postgres/database.js'
import { postgresHarness } from '../support/postgres/harness.js'
import { waitUntil } from '../support/wait-until.js'
import { type ClientParts, post } from './client.js'
import type { Seen } from './seen.js'
import type { Effect, ServerSettings } from './server.js'

/** The service in a process of its own. */
export interface ServerProcess extends Pick<Child, 'pid' | 'signal'> {
  readonly port: number
  send(parts: ClientParts): Promise<Seen>
  /** How many different requests it has told to wait. */
  met(): Promise<number>
  /** Resolves when that many requests with POST have begun to arrive. */
  begun(count: number): Promise<unknown>
  /** Resolves when the server knows of no client but the one that asks. */
  aloneWithUs(): Promise<unknown>
}

let gates = 0

/** Servers on the test's database, and a gate that all their work has to pass. */
export async function setup(database: TestDatabase) {
  const { pool, url } = database
  await pool.query('create table if not exists effects (key text not null, what text not null, pid integer not null)')
  const { advance } = await postgresHarness(fromPg(pool))
  gates += 1
  const gate = gates
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

    async start(settings: Omit<ServerSettings, 'url' | 'gate'> = {}): Promise<ServerProcess> {
      const child = startChild('http/server.ts', { url, gate, ...settings } satisfies ServerSettings)
      const port = await child.message<number>()
      const send = (parts: ClientParts) => post(port, parts)
      const ask = async (path: string) => Number((await send({ method: 'GET', path })).text)
      return {
        pid: child.pid,
        signal: child.signal,
        port,
        send,
        met: () => ask('/met'),
        begun: (count) => waitUntil(`${count} requests have begun`, async () => (await ask('/begun')) === count),
        aloneWithUs: () => waitUntil('the server has noticed that its client is gone', async () => (await ask('/connections')) === 1),
      }
    },

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
