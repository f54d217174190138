import { beforeAll, expect, test } from 'vitest'
import { type TestDatabase, useDatabase } from '../support/postgres/database.js'
import { effectsTable } from './flows.js'
import { allEnded, comes, inShort, late, retried, violations } from './invariants.js'
import { expiredKeys, isEnded, leaveWork, unsettledJobs } from './left-work.js'
import { recoveryMs, workMs } from './limits.js'
import { watchTimers } from './machine.js'
import { startOutside } from './outside.js'
import { afterwards, warmedUp } from './rest.js'
import { allWorkers, startService } from './service.js'
import { type Lost, startSilentProxy } from './silent-proxy.js'
import { type Statement, statements } from './statements.js'

/** A worker whose first statement hangs sends no second one, so each has two turns, and so have requests. */
const turns: readonly (readonly Statement[])[] = [
  ['claim', 'write', 'finish', 'turn', 'waiting', 'reap', 'take'],
  ['heartbeat', 'advance', 'commit', 'takeBack', 'takeOver', 'timeOut', 'settle'],
]
const scenarios = (['everything', 'replies'] as const).flatMap((lost) =>
  turns.map((turn) => ({ lost, turn, database: useDatabase(), name: `${lost} lost at ${turn.join(', ')}` })),
)

beforeAll(async () => {
  for (const { database } of scenarios) await database.pool.query(effectsTable)
})

test('requests and workers recover from connections that go half-open at any statement', { timeout: 600_000 }, async () => {
  // At the same time: they wait for limits, not for a core.
  const found = await Promise.all(scenarios.map(goHalfOpen))
  for (const [index, { name }] of scenarios.entries()) expect.soft(found[index], name).toEqual([])
})

interface Scenario {
  readonly database: TestDatabase
  readonly lost: Lost
  readonly turn: readonly Statement[]
}

/** Returns what is wrong, a line each. */
async function goHalfOpen({ database, lost, turn }: Scenario): Promise<string[]> {
  const { pool } = database
  const wrong: string[] = []
  const outside = await startOutside()
  const proxy = await startSilentProxy(database.url)
  const service = await startService(proxy.url, outside)
  const before = await warmedUp(service)

  const timers = watchTimers()
  const unsent = new Set(turn)
  for (const name of turn) void proxy.silenceAt(statements[name], lost).then(() => unsent.delete(name))
  await service.load('during', 6)
  void service.requests(['park', { id: 'long-park', workMs: 2_000 }], ['operation', { id: 'long-operation', workMs: 2_000 }])
  await leaveWork(pool, 'during')
  if (!(await comes(() => unsent.size === 0, 8_000))) wrong.push(`not reached: ${[...unsent]}`)

  const runs = allWorkers.map((worker) => service.runsOf(worker))
  await leaveWork(pool, 'afterwards')
  const expectToCome = async (what: string, condition: () => Promise<boolean> | boolean, withinMs = recoveryMs) => {
    if (!(await comes(condition, withinMs))) wrong.push(`not within ${withinMs} ms: ${what}`)
  }
  await Promise.all([
    ...allWorkers.map((worker, index) => expectToCome(`the ${worker} runs again`, () => service.runsOf(worker) > (runs[index] ?? 0))),
    expectToCome('abandoned keys are complete', () => isEnded(pool, 'abandoned-afterwards'), workMs),
    expectToCome('waiting keys are complete', () => isEnded(pool, 'waiting-afterwards'), workMs),
    expectToCome('expired keys are reaped', async () => (await expiredKeys(pool)) === 0),
    expectToCome('jobs are delivered', () => [...outside.jobs.values()].some(({ key }) => key === 'waiting-afterwards'), workMs),
    expectToCome('delivered jobs are settled', async () => (await unsettledJobs(pool, 'waiting-afterwards')) === 0, workMs),
  ])
  await service.endLoad()
  const told = await allEnded(service)
  wrong.push(...late(told, service.ran, timers.end()))

  proxy.serverNotices()
  const keys = [
    ...told.map(({ flow, key }) => [flow, key] as const),
    ['park', 'long-park'] as const,
    ['operation', 'long-operation'] as const,
  ]
  const retries = await retried(service, keys)
  wrong.push(...retries.stuck.map((key) => `stuck: ${key}`))
  wrong.push(...(await violations(pool, outside, [...told, ...retries.told])))
  wrong.push(...(await afterwards(service, before)))
  return inShort(wrong)
}
