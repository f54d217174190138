import { beforeAll, expect, test } from 'vitest'
import { useDatabase } from '../support/postgres/database.js'
import { type Asked, effectsTable, type Flow, type Told } from './flows.js'
import { insist } from './insist.js'
import { allEnded, comes, inShort, late, p99, retried, violations } from './invariants.js'
import { expiredKeys, isEnded, leaveWork } from './left-work.js'
import { healthyMs, largeBytes, long, recoveryMs, workMs } from './limits.js'
import { startOutside } from './outside.js'
import { afterwards, inGroups, warmedUp } from './rest.js'
import { startService } from './service.js'
import { startSilentProxy } from './silent-proxy.js'
import { type Statement, statements } from './statements.js'

type Asking = readonly (readonly [Flow, Asked])[]

interface Scenario {
  /** The process is frozen when it has sent this. */
  readonly at: Statement
  /** What it is asked then. */
  readonly asked: Asking
  /** What is there before: answers and jobs of this size. */
  readonly answers?: readonly string[]
  readonly jobs?: readonly string[]
  /** It has a transaction open then, with the key's row in it: that is for the server to end, and until then the key is in progress. */
  readonly inTransaction?: boolean
  /** Background work of the frozen process, besides requests. */
  readonly background?: boolean
}

const own: Asking = (['rerun', 'operation', 'store', 'consumer'] as const).map((flow) => [flow, { id: `own-${flow}` }] as const)
const large = ['large-1', 'large-2', 'large-3']
const largeJobs: Asking = [['operation', { id: 'own-operation', jobBytes: largeBytes, answerBytes: largeBytes }]]

const inShortRuns: readonly Scenario[] = [
  { at: 'claim', asked: [...large.map((id) => ['rerun', { id }] as const), ...own], answers: large },
  { at: 'advance', asked: largeJobs, inTransaction: true },
  { at: 'finish', asked: largeJobs, inTransaction: true },
  { at: 'take', asked: [], jobs: large, background: true },
  { at: 'takeBack', asked: [], background: true },
]
const inLongRuns: readonly Scenario[] = [
  { at: 'heartbeat', asked: [['rerun', { id: 'own-rerun', workMs: 2_000 }]] },
  { at: 'write', asked: own, inTransaction: true },
  { at: 'commit', asked: largeJobs, inTransaction: true },
  { at: 'settle', asked: [], jobs: large, background: true },
  { at: 'turn', asked: [], background: true },
  { at: 'waiting', asked: [], background: true },
  { at: 'takeOver', asked: [], background: true },
  { at: 'read', asked: [], jobs: large, background: true },
  { at: 'reap', asked: [], background: true },
  { at: 'timeOut', asked: [], background: true },
]
/** Before that the frozen process does not thaw. */
const fewestUnrelated = 100
const scenarios = (long ? [...inShortRuns, ...inLongRuns] : inShortRuns).map((scenario) => ({ ...scenario, database: useDatabase() }))

beforeAll(async () => {
  for (const { database } of scenarios) await database.pool.query(effectsTable)
})

test('a process that is frozen at any statement holds up nobody but its own keys, and those for a lease', {
  timeout: 1_200_000,
}, async () => {
  const found = await inGroups(
    2,
    scenarios.map((scenario) => () => freeze(scenario)),
  )
  for (const [index, { at }] of scenarios.entries()) expect.soft(found[index], `frozen at ${at}`).toEqual([])
})

/** Returns what is wrong, a line each. */
async function freeze({
  database,
  at,
  asked,
  answers = [],
  jobs = [],
  background = false,
  inTransaction = false,
}: (typeof scenarios)[number]): Promise<string[]> {
  const { pool } = database
  const wrong: string[] = []
  const outside = await startOutside()
  const proxy = await startSilentProxy(database.url)
  const healthy = await startService(database.url, outside)
  const before = await warmedUp(healthy)
  await healthy.requests(...answers.map((id) => ['rerun', { id, answerBytes: largeBytes }] as const))

  const frozen = await startService(proxy.url, outside, { background: false })
  if (background) await healthy.stopBackground()
  await leaveWork(pool, 'during')
  await healthy.requests(...jobs.map((id) => ['operation', { id, jobBytes: largeBytes }] as const))
  let isFrozen = false
  void proxy
    .freezeAt(statements[at], () => frozen.signal('SIGSTOP'))
    .then(() => {
      isFrozen = true
    })
  if (background) await frozen.startBackground()
  const told = frozen.requests(...asked)
  if (!(await comes(() => isFrozen, 8_000))) wrong.push(`not reached: ${at}`)
  if (background) await healthy.startBackground()

  await leaveWork(pool, 'afterwards')
  await healthy.watch()
  await healthy.load('unrelated', 4, ['rerun', 'store', 'local', 'consumer'])
  const insisted = insist(healthy, [
    // Large answers that are there are replayed in the end: many at once would measure how fast they are decoded.
    ...asked.filter(([, { id }]) => !answers.includes(id)).map(([flow, { id }]) => [flow, id] as const),
    ['operation', 'abandoned-during'],
    ['operation', 'waiting-during'],
  ])
  const expectToCome = async (what: string, condition: () => Promise<boolean> | boolean, withinMs = recoveryMs) => {
    if (!(await comes(condition, withinMs))) wrong.push(`not within ${withinMs} ms: ${what}`)
  }
  const isDelivered = (id: string) => [...outside.jobs.values()].some(({ key }) => key === id)
  await Promise.all([
    ...asked
      .filter(([flow]) => !inTransaction && flow !== 'consumer')
      .map(([flow, { id }]) => expectToCome(`the frozen process's key goes to others: ${flow} ${id}`, () => isEnded(pool, id))),
    expectToCome('abandoned keys are complete', () => isEnded(pool, 'abandoned-during', 'abandoned-afterwards'), workMs),
    expectToCome('waiting keys are complete', () => isEnded(pool, 'waiting-during', 'waiting-afterwards'), workMs),
    expectToCome('expired keys are reaped', async () => (await expiredKeys(pool)) === 0),
    expectToCome('jobs are delivered', () => [...jobs, 'waiting-afterwards'].every(isDelivered), workMs),
  ])
  const ended: Told[] = []
  await expectToCome('many unrelated requests end', async () => {
    ended.push(...(await healthy.ended()))
    return ended.length >= fewestUnrelated
  })
  await healthy.endLoad()
  const others = [...(await insisted.end()), ...ended, ...(await allEnded(healthy))]
  const unrelated = p99(others.filter(({ key }) => key.startsWith('unrelated')))
  const machineMs = await healthy.endWatch()
  if (unrelated > healthyMs + machineMs) wrong.push(`p99 of unrelated keys: ${unrelated} ms, and ${machineMs} ms of it are the machine's`)
  wrong.push(...late(others, healthy.ran, machineMs))

  frozen.signal('SIGCONT')
  proxy.thaw()
  const own = await Promise.race([told, new Promise<Told[]>((resolve) => setTimeout(resolve, recoveryMs, []))])
  if (own.length < asked.length) wrong.push(`not within ${recoveryMs} ms: requests of the frozen process end after it has thawed`)
  const last = await retried(
    healthy,
    asked.map(([flow, { id }]) => [flow, id] as const),
  )
  wrong.push(...last.stuck.map((key) => `stuck: ${key}`))
  wrong.push(...(await violations(pool, outside, [...others, ...own, ...last.told])))
  wrong.push(...(await afterwards(healthy, before)))
  return inShort(wrong)
}
