import { randomUUID } from 'node:crypto'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { createOnce } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { workers } from '../../src/workers/index.js'
import { seededRandom } from '../phases/seeded-random.js'
import { useDatabase } from '../support/postgres/database.js'
import { defineFlows, effectsTable, type Flow, flows, type Told } from './flows.js'
import { comes, inShort, late, violations } from './invariants.js'
import { limits, long, recoveryMs } from './limits.js'
import { watchMachine } from './machine.js'
import type { Outside } from './outside.js'
import { startSilentProxy } from './silent-proxy.js'

const database = useDatabase()
beforeAll(() => database.pool.query(`${effectsTable}; create index on effects (key)`))

const seed = Number(process.env.ONCEKEY_SEED ?? Math.floor(Math.random() * 2 ** 32))
const requests = long ? 100_000 : 2_000
/** Before memory is measured: compiled code and caches are no growth. */
const warmUp = 500
const clients = 64
/** A fault comes after so many requests. */
const faultEvery = long ? 2_000 : 500
const { storeTimeoutMs, leaseMs, maxRunMs, everyMs, connectMs } = limits

test(`nothing is doubled, lost or changed in ${requests} requests while connections fall silent (ONCEKEY_SEED=${seed})`, {
  timeout: 3_600_000,
}, async () => {
  const { pool } = database
  const random = seededRandom(seed)
  const proxy = await startSilentProxy(database.url)
  const own = database.createPool({ connectionString: proxy.url, max: 20, connectionTimeoutMillis: connectMs })
  const ran = new Set<string>()
  const once = createOnce({
    store: postgresStore(fromPg(own)),
    ...{ storeTimeout: storeTimeoutMs, lease: leaseMs, maxRun: maxRunMs },
    onEvent(event) {
      if (event.type === 'executing') ran.add(event.key)
    },
  })
  const outside = { charges: new Map<string, string>(), runs: [] as string[], jobs: new Map<string, { key: string; times: number }>() }
  const request = defineFlows(once, {
    async charge(derivedKey, id) {
      if (!outside.charges.has(derivedKey)) outside.charges.set(derivedKey, id)
    },
    async ran(id) {
      outside.runs.push(id)
    },
  })
  const background = workers(once, {
    ...{ sweeper: { every: everyMs }, completer: { every: everyMs }, reaper: { every: everyMs } },
    relay: {
      ...{ every: everyMs, lease: 2 * leaseMs, timeout: leaseMs, backoff: { first: 50, most: 250 } },
      sink({ id, payload }) {
        const { key } = payload as { key: string }
        const known = outside.jobs.get(id)
        if (known) known.times += 1
        else outside.jobs.set(id, { key, times: 1 })
      },
    },
  })
  background.start()
  onTestFinished(() => void background.stop())

  const told: Told[] = []
  const hung = new Set<string>()
  /** One that does not end in time is told as it is. */
  async function send(flow: Flow, id: string): Promise<Told> {
    const mark = `${flow} ${id}`
    hung.add(mark)
    const most = storeTimeoutMs + 2 * maxRunMs + leaseMs + 5_000
    let timer: NodeJS.Timeout | undefined
    const never = new Promise<Told>((resolve) => {
      timer = setTimeout(resolve, most, { flow, key: id, kind: 'running', code: null, nonce: null, stored: false, ms: most })
    })
    const one = await Promise.race([request(flow, { id, isUnnoted: flow === 'rerun' }), never])
    // Thousands of them would be taken for growth of the heap.
    clearTimeout(timer)
    if (one.kind !== 'running') hung.delete(mark)
    told.push(one)
    if (one.stored) answeredAt = performance.now()
    return one
  }

  /** Nothing got an answer for longer than any fault lasts, so there is no point in going on. */
  const isWedged = () => performance.now() - answeredAt > recoveryMs
  let answeredAt = performance.now()
  let sent = 0
  let wanted = warmUp
  const isDone = ({ kind, stored }: Told) => stored || kind === 'parked' || kind === 'replayed'
  /** Sends a request, and repeats it until it has an answer, as clients do. Some of them send two at once. */
  async function client(): Promise<void> {
    while (sent < wanted && !isWedged()) {
      sent += 1
      if (sent > warmUp && sent % faultEvery === 0) fault()
      const flow = flows[Math.floor(random() * flows.length)] as Flow
      const id = randomUUID()
      const twin = random() < 0.1 ? send(flow, id) : undefined
      for (let tries = 0; tries < 40 && !isWedged() && !isDone(await send(flow, id)); tries += 1)
        await new Promise((resolve) => setTimeout(resolve, 250))
      await twin
    }
  }
  function fault(): void {
    const which = random()
    if (which < 0.4) proxy.silence('everything')
    else if (which < 0.8) proxy.silence('replies')
    else {
      const end = proxy.blackout()
      setTimeout(end, 2_000)
    }
    // The server's keepalive, and the connections that are closed by their own side in the meantime.
    setTimeout(() => proxy.serverNotices(), 3_000)
  }

  const sendAll = () => Promise.all(Array.from({ length: clients }, client))
  await sendAll()
  const before = await heapBytes()
  const machine = await watchMachine(database.url)
  wanted = warmUp + requests
  await sendAll()
  const wrong = [...hung].map((mark) => `has not ended: ${mark}`)
  wrong.push(...late(told, ran, await machine.end()))
  const answered = new Set(told.filter(isDone).map(({ key }) => key)).size
  if (answered < wanted) wrong.push(`only ${answered} of ${wanted} requests have an answer`)
  const isSettled = async () => (await pool.query('select from oncekey.jobs limit 1')).rows.length === 0
  if (!(await comes(isSettled))) wrong.push(`not within ${recoveryMs} ms: all jobs are delivered and settled`)
  const isWorked = async () =>
    (await pool.query(`select from oncekey.keys where state in ('pending', 'processing') limit 1`)).rows.length === 0
  if (!(await comes(isWorked))) wrong.push(`not within ${recoveryMs} ms: no key waits or is held`)
  wrong.push(...(await violations(pool, outside as unknown as Outside, told)))
  // What this test itself keeps of its requests is let go first.
  for (const kept of [told, outside.runs]) kept.length = 0
  for (const kept of [ran, outside.charges, outside.jobs]) kept.clear()
  const growth = (await heapBytes()) / before - 1
  if (growth > 0.2) wrong.push(`the heap grew by ${Math.round(growth * 100)} %`)
  const stopped = await Promise.race([
    Promise.all([background.stop(), once.stop({ within: 1_000 })]),
    new Promise<undefined>((resolve) => setTimeout(resolve, recoveryMs, undefined)),
  ])
  if (!stopped) wrong.push(`stop() did not end within ${recoveryMs} ms`)
  const isIdle = await comes(() => own.totalCount === own.idleCount && own.waitingCount === 0)
  if (!isIdle) wrong.push(`the pool is not idle: ${own.totalCount - own.idleCount} connections in use, ${own.waitingCount} waiting`)
  expect(inShort(wrong)).toEqual([])
})

async function heapBytes(): Promise<number> {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  for (let round = 0; round < 4; round += 1) {
    collect()
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  return process.memoryUsage().heapUsed
}
