// A service of the campaign: serves requests, does background work, and tells its test what becomes of both.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import pg from 'pg'
import { createOnce } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { workers } from '../../src/workers/index.js'
import { childSettings, tellParent } from '../support/in-child.js'
import { type Asked, defineFlows, type Flow, flows, type Told } from './flows.js'
import { watchMachine } from './machine.js'
import type { Command, Settings } from './service.js'
import { withShortLimits } from './short-limits.js'

const { url, outside, limits, background: withWorkers, maxRows, deliveryMs = limits.leaseMs } = childSettings<Settings>()
const { storeTimeoutMs, leaseMs, maxRunMs, everyMs, connections, connectMs } = limits
setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

const pool = new pg.Pool({ connectionString: url, max: connections, connectionTimeoutMillis: connectMs })
pool.on('error', () => {})
const once = createOnce({
  // Without names, so that the proxy sees the text of each statement.
  store: withShortLimits(postgresStore(fromPg(pool, { prepare: false }), { batch: maxRows === undefined ? {} : { maxRows } })),
  ...{ storeTimeout: storeTimeoutMs, lease: leaseMs, maxRun: maxRunMs, maxAnswerBytes: 64 * 1024 * 1024 },
  onEvent(event) {
    if (event.type === 'executing') tellParent({ ran: event.key })
    if (event.type === 'worker-ran' || event.type === 'worker-failed')
      tellParent({ worker: event.worker, failed: event.type !== 'worker-ran' })
  },
})
const post = async (path: string, body: string, options: RequestInit = {}) => {
  await (await fetch(`${outside}${path}`, { method: 'POST', body, ...options })).text()
}
const request = defineFlows(once, {
  charge: (derivedKey, id, signal) => post('/charges', id, { headers: { 'idempotency-key': derivedKey }, signal }),
  ran: (id) => post('/runs', id),
})
const background = workers(once, {
  ...{ sweeper: { every: everyMs }, completer: { every: everyMs }, reaper: { every: everyMs } },
  relay: {
    ...{ every: everyMs, lease: 2 * deliveryMs, timeout: deliveryMs, backoff: { first: 50, most: 250 } },
    sink: ({ id, payload }) => post('/jobs', JSON.stringify({ id, key: (payload as { key: string }).key })),
  },
})

/** Requests that have not ended, by what says so. */
const running = new Map<object, () => Told>()

async function tracked(flow: Flow, asked: Asked): Promise<Told> {
  const began = performance.now()
  const mark = {}
  running.set(mark, () => {
    return { flow, key: asked.id, kind: 'running', code: null, nonce: null, stored: false, ms: performance.now() - began }
  })
  const told = await request(flow, asked)
  running.delete(mark)
  return told
}

let machine: Awaited<ReturnType<typeof watchMachine>> | undefined
let isLoaded = false
const ended: Told[] = []

/** A client that sends one request after the other, each with its own key. */
async function client(prefix: string, number: number, of: readonly Flow[]): Promise<void> {
  for (let count = number; isLoaded; count += 1) {
    const flow = of[count % of.length] as Flow
    ended.push(await tracked(flow, { id: `${prefix}-${number}-${count}`, workMs: count % 5 === 0 ? 20 : 0, isUnnoted: flow !== 'park' }))
    await new Promise((resolve) => setTimeout(resolve, 30))
  }
}

async function heapBytes(): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let round = 0; round < 4; round += 1) {
    collect()
    await new Promise((resolve) => setTimeout(resolve, 20))
    const { heapUsed, external } = process.memoryUsage()
    least = Math.min(least, heapUsed + external)
  }
  return least
}

async function carryOut(command: Command): Promise<unknown> {
  switch (command.do) {
    case 'requests':
      return Promise.all(command.asked.map(([flow, asked]) => tracked(flow, asked)))
    case 'load': {
      isLoaded = true
      for (let number = 0; number < command.clients; number += 1) void client(command.prefix, number, command.of ?? flows)
      return
    }
    case 'end load':
      isLoaded = false
      return
    case 'watch':
      machine = await watchMachine(url)
      return
    case 'end watch':
      return machine?.end()
    case 'running':
      return [...running.values()].map((told) => told())
    case 'ended':
      return ended.splice(0)
    case 'pool':
      return { total: pool.totalCount, idle: pool.idleCount, waiting: pool.waitingCount }
    case 'heap':
      return heapBytes()
    case 'start background':
      return background.start()
    case 'stop background':
      return background.stop()
    case 'stop': {
      const began = performance.now()
      await Promise.all([background.stop(), once.stop({ within: 1_000 })])
      return performance.now() - began
    }
  }
}

process.on('message', ({ id, command }: { id: number; command: Command }) => {
  void carryOut(command).then((result) => tellParent({ id, result }))
})
// Many at a time, so that the pool has its connections and the code is compiled.
await Promise.all(flows.flatMap((flow) => [1, 2, 3].map((number) => request(flow, { id: `first-${process.pid}-${flow}-${number}` }))))
if (withWorkers) background.start()
tellParent('started')
