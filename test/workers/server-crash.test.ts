// The server crashes and recovers while workers are in the middle of what an earlier crash left.
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { createOnce, type OnceEvent, reply } from '../../src/index.js'
import { fromPg, migrate, postgresStore } from '../../src/stores/postgres/index.js'
import { workers } from '../../src/workers/index.js'
import { startPostgres } from '../support/postgres/server.js'
import { waitUntil } from '../support/wait-until.js'

const keys = 300
const crashes = process.env.ONCEKEY_LONG === '1' ? 10 : 1

test('a server that crashes while keys are swept and completed doubles none and forgets none', { timeout: 600_000 }, async () => {
  // A crash is one of the server only: what it has committed survives it without fsync.
  const server = await startPostgres({ flags: { fsync: 'off', max_connections: 50 } })
  onTestFinished(() => server.stop())
  const pool = new pg.Pool({ connectionString: server.url, max: 10 })
  pool.on('error', () => {})
  onTestFinished(() => pool.end())
  await migrate(fromPg(pool))
  await pool.query('create table orders (id text primary key, paid integer not null default 0)')

  const charges = new Map<string, string>()
  const events: OnceEvent[] = []
  const newOnce = () => createOnce({ store: postgresStore(fromPg(pool)), lease: 1_000, onEvent: (event) => void events.push(event) })
  const once = newOnce()
  const pay = once.operation('pay', {}, async (run, order) => {
    const id = String(order)
    await run.phase('order', (tx) => tx.query('insert into orders values ($1)', [id]).then(() => null))
    await run.call('charge', ({ key }) => {
      // A provider that honours keys has one of each order, however often it is sent.
      expect(charges.get(id) ?? key).toBe(key)
      charges.set(id, key)
      return null
    })
    return run.finish(async (tx) => {
      await tx.query('update orders set paid = paid + 1 where id = $1', [id])
      return reply(201)
    })
  })
  // Half of them were held by a process that is gone, half were left to workers.
  for (let key = 0; key < keys; key += 1) await pay.enqueue({ tenant: 'acme', key: `k${key}`, input: `o${key}` })
  await pool.query(
    `update oncekey.keys set state = 'processing', waiting = false, fence = 1, locked_until = now() - interval '1 s', due_at = now() - interval '1 s'
      where hashtext(key) % 2 = 0`,
  )

  const background = workers(once, { sweeper: { every: 50, batch: 10 }, completer: { every: 50, slots: 8 }, reaper: { every: 200 } })
  background.start()
  onTestFinished(() => background.stop())
  // A connection of the pool may be of before the crash: the next one is not.
  const ask = async (text: string, tries = 20): Promise<pg.QueryResult> =>
    pool.query(text).catch((error: unknown) => {
      if (tries === 1) throw error
      return ask(text, tries - 1)
    })
  const count = async (what: string) => Number((await ask(`select count(*) as count from ${what}`)).rows[0].count)
  const completed = () => count(`oncekey.keys where state = 'complete'`)
  for (let crash = 1; crash <= crashes; crash += 1) {
    await waitUntil('some are complete', async () => (await completed()) >= (crash * keys) / (crashes + 2))
    const { rows } = await ask('select pid from pg_stat_activity where pid <> pg_backend_pid() and datname is not null limit 1')
    // The server ends all sessions when one is killed, and goes through its recovery.
    process.kill(rows[0].pid, 'SIGKILL')
    await waitUntil('it is back', () =>
      pool.query('select 1').then(
        () => true,
        () => false,
      ),
    )
  }
  const allCompleted = async () => {
    // Those that were under way wait some seconds: their time comes now.
    await ask(`update oncekey.keys set due_at = now() where state = 'pending' and due_at > now()`)
    return (await completed()) === keys
  }
  await waitUntil('all are complete', allCompleted, 120_000)
  const unfinished = await count(`oncekey.keys where state <> 'complete'`)
  expect([await count('orders where paid = 1'), charges.size, unfinished]).toEqual([keys, keys, 0])
  expect(events.filter(({ type }) => type === 'worker-failed').length).toBeGreaterThan(0)
})
