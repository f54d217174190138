import type pg from 'pg'
import { expect, test } from 'vitest'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { type Asked, effectsTable, type Flow, type Told, tenant } from './flows.js'
import { startFreezablePostgres } from './frozen-server.js'
import { comes, inShort, late, parkedWithoutRun, retried, violations } from './invariants.js'
import { faultMs, limits, long, recoveryMs } from './limits.js'
import { watchTimers } from './machine.js'
import { startOutside } from './outside.js'
import { afterwards, warmedUp } from './rest.js'
import { allWorkers, startService } from './service.js'
import { startSilentProxy } from './silent-proxy.js'

const database = useDatabase()

/** Few rows to a statement: most requests then wait for their place in one. */
const maxRows = 16
const sentAtMost = limits.connections * maxRows
const requestsPerSecond = long ? 1_000 : 300

test('requests that were told store_timeout while the database gave no answer are not carried out afterwards', {
  timeout: 600_000,
}, async () => {
  const [server, proxy] = await Promise.all([startFreezablePostgres(), startSilentProxy(database.url)])
  let light = () => {}
  const dark = () => {
    light = proxy.blackout()
  }
  const found = await Promise.all([
    noAnswer({ ...server, faultMs: faultMs.hung, begin: () => server.freeze(), end: () => server.thaw() }),
    noAnswer({ url: proxy.url, pool: database.pool, faultMs: faultMs.dark, begin: dark, end: () => light() }),
  ])
  expect.soft(found[0], 'the database hung').toEqual([])
  expect.soft(found[1], 'nothing came through, on new connections neither').toEqual([])
})

interface Scenario {
  readonly url: string
  /** A way to the database that has no fault before and after it. */
  readonly pool: pg.Pool
  readonly faultMs: number
  begin(): void
  end(): void
}

/** Returns what is wrong, a line each. */
async function noAnswer({ url, pool, faultMs, begin, end }: Scenario): Promise<string[]> {
  await pool.query(effectsTable)
  const wrong: string[] = []
  const outside = await startOutside()
  const service = await startService(url, outside, { maxRows })
  const before = await warmedUp(service)

  const timers = watchTimers()
  begin()
  const told = await clientsFor(faultMs, (asked) => service.requests(...asked))
  end()
  const runs = allWorkers.map((worker) => service.runsOf(worker))
  const all = (await Promise.all(told)).flat()
  wrong.push(...late(all, service.ran, timers.end()))
  for (const [index, worker] of allWorkers.entries()) {
    const isBack = await comes(() => service.runsOf(worker) > (runs[index] ?? 0))
    if (!isBack) wrong.push(`not within ${recoveryMs} ms: the ${worker} runs again`)
  }

  const refused = all.filter(({ code }) => code?.startsWith('store_') === true)
  if (refused.length < all.length / 2) wrong.push(`only ${refused.length} of ${all.length} requests were refused`)
  await quiet(pool)
  const claimed = await keysAmong(pool, refused)
  if (claimed.length > sentAtMost)
    wrong.push(`claimed although refused: ${claimed.length} of ${refused.length}, but no more than ${sentAtMost} were sent`)
  await comes(async () => (await parkedWithoutRun(pool, service.ran)).length === 0)
  const held = await parkedWithoutRun(pool, service.ran)
  if (held.length > 0) wrong.push(`claimed although refused, and not given back: ${held.length}, such as ${held[0]}`)
  await daysPass(pool, claimed)
  await comes(async () => (await statesAmong(pool, claimed)).every((state) => state !== 'pending'))
  const parked = await parkedWithoutRun(pool, service.ran)
  if (parked.length > 0) wrong.push(`parked although they never ran: ${parked.length}, such as ${parked[0]}`)

  const others = refused.filter(({ key }) => !claimed.includes(key)).slice(0, 50)
  const retries = await retried(
    service,
    others.map(({ flow, key }) => [flow, key] as const),
  )
  wrong.push(...retries.stuck.map((key) => `stuck: ${key}`))
  wrong.push(...(await violations(pool, outside, [...all, ...retries.told])))
  wrong.push(...(await afterwards(service, before)))
  return inShort(wrong)
}

/** Sends requests at a steady rate, and returns what will become of them. */
async function clientsFor(ms: number, send: (asked: (readonly [Flow, Asked])[]) => Promise<Told[]>): Promise<Promise<Told[]>[]> {
  const told: Promise<Told[]>[] = []
  const began = performance.now()
  let sent = 0
  await waitUntil(
    'the fault is over',
    () => {
      const due = Math.floor(((performance.now() - began) / 1_000) * requestsPerSecond) - sent
      const asked = Array.from(
        { length: due },
        (_, index) => [index % 2 ? 'park' : 'operation', { id: `refused-${sent + index}` }] as const,
      )
      sent += due
      told.push(send(asked))
      return performance.now() - began >= ms
    },
    ms + 10_000,
  )
  return told
}

/** Until nothing is claimed any more, and all leases that nobody renews are over and swept. */
async function quiet(pool: pg.Pool): Promise<void> {
  let seen = ''
  let since = performance.now()
  await waitUntil('nothing happens to keys any more', async () => {
    const { rows } = await pool.query(`select count(*)::text || max(created_at)::text as seen from oncekey.keys where tenant = $1`, [
      tenant,
    ])
    if (rows[0].seen !== seen) since = performance.now()
    seen = rows[0].seen
    return performance.now() - since > limits.leaseMs + 4 * limits.everyMs
  })
}

async function keysAmong(pool: pg.Pool, told: readonly Told[]): Promise<string[]> {
  const { rows } = await pool.query<{ key: string }>('select key from oncekey.keys where tenant = $1 and key = any ($2)', [
    tenant,
    told.map(({ key }) => key),
  ])
  return rows.map(({ key }) => key)
}

async function statesAmong(pool: pg.Pool, keys: readonly string[]): Promise<string[]> {
  const { rows } = await pool.query<{ state: string }>('select state from oncekey.keys where tenant = $1 and key = any ($2)', [
    tenant,
    keys,
  ])
  return rows.map(({ state }) => state)
}

/** Time passes for keys that wait: longer than their retention, and than what workers are given on top. */
async function daysPass(pool: pg.Pool, keys: readonly string[]): Promise<void> {
  const back = (column: string) => `${column} = ${column} - interval '3 days'`
  await pool.query(
    `update oncekey.keys set ${['created_at', 'expires_at', 'reap_after', 'due_at'].map(back)}
     where tenant = $1 and key = any ($2) and state = 'pending'`,
    [tenant, keys],
  )
}
