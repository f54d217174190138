import { expect, test } from 'vitest'
import { startChild } from '../support/child.js'
import { retrier } from '../support/crash-key.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'

const database = useDatabase()

test('gives the key of a killed holder to a retry within lease + 1 s', async () => {
  const key = 'killed'
  const holder = startChild('crashes/holder.ts', { url: database.url, key, lease: '2000ms' })
  expect(await holder.message()).toEqual({ attempt: 1, fence: 1 })

  holder.signal('SIGKILL')
  const { rows } = await database.pool.query('select clock_timestamp() as killed_at')
  const { retry } = retrier(database.pool, key)
  await waitUntil('the key is taken over', async () => (await retry()).kind === 'executed')

  // By the database's clock; the finish leaves the moment of the take-over in no column, so it is bounded from above by now.
  const { rows: after } = await database.pool.query(
    `select fence, extract(epoch from clock_timestamp() - $1) as seconds from oncekey.keys where key = $2`,
    [rows[0].killed_at, key],
  )
  expect(after[0].fence).toBe(2)
  expect(Number(after[0].seconds)).toBeLessThan(3)
  expect(await retry()).toEqual({ kind: 'replayed', by: process.pid })
})
