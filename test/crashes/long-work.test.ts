import { expect, test } from 'vitest'
import { startChild } from '../support/child.js'
import { retrier } from '../support/crash-key.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'

const database = useDatabase()
/** Two leases and some, or twelve. */
const seconds = process.env.ONCEKEY_LONG === '1' ? 60 : 11

test(`never takes a job of ${seconds} s over from a live holder with a lease of 5 s`, { timeout: 120_000 }, async () => {
  const key = 'long'
  const holder = startChild('crashes/holder.ts', { url: database.url, key, lease: '5000ms', workMs: seconds * 1_000 })
  expect(await holder.message()).toEqual({ attempt: 1, fence: 1 })
  const done = holder.message<{ kind: string; events: string[] }>()
  let finished = false
  void done.then(() => {
    finished = true
  })

  const { retry } = retrier(database.pool, key)
  const seen = new Set<string>()
  await waitUntil(
    'the job is done',
    async () => {
      const before = finished
      seen.add((await retry()).kind)
      return before
    },
    90_000,
  )
  expect(await done).toEqual({ kind: 'executed', events: ['executing', 'signal-quiet', 'finished'] })
  expect([...seen].sort()).toEqual(['in-progress', 'replayed'])
  expect(await retry()).toEqual({ kind: 'replayed', by: holder.pid })
})
