import { expect, test } from 'vitest'
import { startChild } from '../support/child.js'
import { retrier } from '../support/crash-key.js'
import { useDatabase } from '../support/postgres/database.js'

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

    /** Ten minutes pass for the database, in which the dead renew nothing. */
    const leaseRunsOut = async (key: string) => {
      const { rows } = await database.pool.query(
        `update oncekey.keys set locked_until = locked_until - interval '10 minutes' where key = $1
         returning extract(epoch from clock_timestamp() - locked_until) as seconds_over`,
        [key],
      )
      const over = Number(rows[0].seconds_over)
      expect(over).toBeGreaterThan(0)
      expect(over).toBeLessThan(600)
    }
    const crashed = `crashes ${name}`
    const victim = startChild('crashes/holder.ts', { ...settings, key: crashed, lease: '600000ms' })
    await victim.message()
    victim.signal('SIGKILL')
    const afterCrash = retrier(database.pool, crashed)
    expect((await afterCrash.retry()).kind).toBe('in-progress')
    await leaseRunsOut(crashed)
    expect((await afterCrash.retry()).kind).toBe('executed')

    // And the other way round: the one with the wrong clock is the taker.
    const freed = `taken ${name}`
    const first = startChild('crashes/holder.ts', { url: database.url, key: freed, lease: '600000ms' })
    await first.message()
    first.signal('SIGKILL')
    await leaseRunsOut(freed)
    const taker = startChild('crashes/holder.ts', { ...settings, key: freed, lease: '30000ms' })
    expect(await taker.message()).toEqual({ attempt: 2, fence: 2 })
  })
}
