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
  const lease = async () => {
    const { rows } = await database.pool.query(
      `select fence, extract(epoch from locked_until - clock_timestamp()) as seconds_left from oncekey.keys where key = $1`,
      [key],
    )
    return rows[0] as { fence: number; seconds_left: string }
  }
  // The dead renew nothing: from now on the lease can only get shorter, by the database's clock.
  expect(Number((await lease()).seconds_left)).toBeLessThanOrEqual(2)
  const { retry } = retrier(database.pool, key)
  const outcomes: { over: boolean; kind: string }[] = []
  await waitUntil('the key is taken over', async () => {
    const over = Number((await lease()).seconds_left) <= 0
    const { kind } = await retry()
    outcomes.push({ over, kind })
    return kind === 'executed'
  })
  // The very first retry after the lease was over got it, so a client that asks every second has it within lease + 1 s.
  expect(outcomes.filter(({ over }) => over).length).toBeLessThanOrEqual(1)
  expect(outcomes.slice(0, -1).every(({ kind }) => kind === 'in-progress')).toBe(true)
  expect((await lease()).fence).toBe(2)
  expect(await retry()).toEqual({ kind: 'replayed', by: process.pid })
})
