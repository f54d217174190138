import { expect, test } from 'vitest'
import { startChild } from '../support/child.js'
import { retrier } from '../support/crash-key.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'

const database = useDatabase()

test('refuses the finish and the heartbeat of a holder that was frozen past its lease', async () => {
  const key = 'frozen'
  const holder = startChild('crashes/holder.ts', { url: database.url, key, lease: '600000ms' })
  expect(await holder.message()).toEqual({ attempt: 1, fence: 1 })
  const { retry } = retrier(database.pool, key)
  expect((await retry()).kind).toBe('in-progress')

  holder.signal('SIGSTOP')
  // Ten minutes pass for the database.
  await database.pool.query(`update oncekey.keys set locked_until = clock_timestamp() where key = $1`, [key])
  expect((await retry()).kind).toBe('executed')

  holder.send('finish')
  holder.signal('SIGCONT')
  const { kind, events } = await holder.message<{ kind: string; events: string[] }>()
  expect(kind).toBe('lease_lost')
  expect(events).toContain('lease-lost')
  expect(await retry()).toEqual({ kind: 'replayed', by: process.pid })
})

test('tells a frozen holder by its heartbeat, before it finishes, that the key is gone', async () => {
  const key = 'woken'
  const holder = startChild('crashes/holder.ts', { url: database.url, key, lease: '1000ms', tellLoss: true })
  await holder.message()
  const { retry } = retrier(database.pool, key)

  holder.signal('SIGSTOP')
  await waitUntil('the lease is over', async () => (await retry()).kind === 'executed')
  holder.signal('SIGCONT')
  // The heartbeat that comes with waking up is refused; only then is the work allowed to end.
  expect(await holder.message()).toBe('lease-lost')
  holder.send('finish')
  const { kind, events } = await holder.message<{ kind: string; events: string[] }>()
  expect(kind).toBe('lease_lost')
  expect(events).toContain('signal-aborted')
  expect(await retry()).toEqual({ kind: 'replayed', by: process.pid })
})
