import { expect, test } from 'vitest'
import { startChild } from '../support/child.js'
import { retrier } from '../support/crash-key.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'

const database = useDatabase()
const hour = 3_600_000

for (const [name, clockSkewMs] of [
  ['an hour fast', hour],
  ['an hour slow', -hour],
] as const) {
  test(`holds, replays and is taken over alike when the holder's clock is ${name}`, async () => {
    const key = `finishes ${name}`
    const settings = { url: database.url, clockSkewMs }
    const holder = startChild('crashes/holder.ts', { ...settings, key, lease: '30000ms' })
    expect(await holder.message()).toEqual({ attempt: 1, fence: 1 })
    const { retry } = retrier(database.pool, key)
    expect((await retry()).kind).toBe('in-progress')
    holder.send('finish')
    expect(await holder.message()).toEqual({ kind: 'executed', events: ['executing', 'signal-quiet', 'finished'] })
    expect(await retry()).toEqual({ kind: 'replayed', by: holder.pid })
    const { rows } = await database.pool.query(
      `select extract(epoch from expires_at - clock_timestamp()) / 3600 as hours_left from oncekey.keys where key = $1`,
      [key],
    )
    expect(Math.round(Number(rows[0].hours_left))).toBe(24)

    const crashed = `crashes ${name}`
    const victim = startChild('crashes/holder.ts', { ...settings, key: crashed, lease: '1000ms' })
    await victim.message()
    victim.signal('SIGKILL')
    const afterCrash = retrier(database.pool, crashed)
    await waitUntil('the lease of a second is over', async () => (await afterCrash.retry()).kind === 'executed')

    // And the other way round: the one with the wrong clock is the taker.
    const freed = `taken ${name}`
    const first = startChild('crashes/holder.ts', { url: database.url, key: freed, lease: '1000ms' })
    await first.message()
    first.signal('SIGKILL')
    await waitUntil('the lease is over', async () => {
      const { rows: stale } = await database.pool.query(`select 1 from oncekey.keys where key = $1 and locked_until < clock_timestamp()`, [
        freed,
      ])
      return stale.length > 0
    })
    const taker = startChild('crashes/holder.ts', { ...settings, key: freed, lease: '30000ms' })
    expect(await taker.message()).toEqual({ attempt: 2, fence: 2 })
  })
}
