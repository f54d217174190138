import type pg from 'pg'
import { createOnce, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { reaper } from '../../src/workers/index.js'
import { type Spread, spread } from '../layout/summary.js'
import { writeKeys } from './written-keys.js'

export interface ReapingResult {
  readonly expired: number
  readonly reapedPerSecond: Spread
  readonly claimsPerSecond: { readonly alone: Spread; readonly whileReaping: Spread }
  readonly p50Ratio: Spread
  readonly p99Ratio: Spread
  readonly p99Ms: { readonly alone: Spread; readonly whileReaping: Spread }
}

interface Window {
  readonly p50: number
  readonly p99: number
  readonly perSecond: number
}

/** Claims and finishes new keys all the time, in turns alone and beside the reaper: each pair of windows gives one ratio. */
export async function measureReaping(
  pool: pg.Pool,
  { keys, rounds, seconds }: { keys: number; rounds: number; seconds: number },
): Promise<ReapingResult> {
  const client = await pool.connect()
  await client.query('truncate oncekey.keys')
  console.error(`writing ${keys} expired keys`)
  await writeKeys(client, keys, { expireInSeconds: -3_600 })
  await client.query('vacuum analyze oncekey.keys')
  client.release()

  const once = createOnce({ store: postgresStore(fromPg(pool)) })
  let latencies: number[] = []
  let working = true
  const lane = async () => {
    while (working) {
      const startedAt = performance.now()
      const options = { tenant: 'load', scope: 's', key: crypto.randomUUID(), fingerprint: false, afterFailure: 'rerun' } as const
      await once.execute(options, () => reply(201, { ok: true }))
      latencies.push(performance.now() - startedAt)
    }
  }
  const lanes = Array.from({ length: 8 }, lane)
  const measure = async (): Promise<Window> => {
    latencies = []
    await new Promise((resolve) => setTimeout(resolve, seconds * 1_000))
    const sorted = latencies.toSorted((one, other) => one - other)
    const at = (share: number) => sorted[Math.floor(sorted.length * share)] as number
    return { p50: at(0.5), p99: at(0.99), perSecond: sorted.length / seconds }
  }
  await measure()

  const pairs: { alone: Window; whileReaping: Window; reaped: number }[] = []
  const service = reaper(once, { every: 1 })
  const left = async () =>
    (await pool.query(`select count(*)::integer as count from oncekey.keys where tenant = 'expired'`)).rows[0].count as number
  for (let round = 0; round < rounds; round += 1) {
    const alone = await measure()
    const before = await left()
    service.start()
    const whileReaping = await measure()
    await service.stop()
    pairs.push({ alone, whileReaping, reaped: before - (await left()) })
    console.error(
      `round ${round + 1}: p99 ${alone.p99.toFixed(1)} ms alone, ${whileReaping.p99.toFixed(1)} ms while reaping; ${await left()} left`,
    )
  }
  working = false
  await Promise.all(lanes)
  const column = (pick: (pair: (typeof pairs)[number]) => number) => spread(pairs.map(pick))
  return {
    expired: keys,
    reapedPerSecond: column(({ reaped }) => reaped / seconds),
    claimsPerSecond: { alone: column(({ alone }) => alone.perSecond), whileReaping: column(({ whileReaping }) => whileReaping.perSecond) },
    p50Ratio: column(({ alone, whileReaping }) => whileReaping.p50 / alone.p50),
    p99Ratio: column(({ alone, whileReaping }) => whileReaping.p99 / alone.p99),
    p99Ms: { alone: column(({ alone }) => alone.p99), whileReaping: column(({ whileReaping }) => whileReaping.p99) },
  }
}
