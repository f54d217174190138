// A process with a service on a real socket: POST /handler is behind idempotency(), POST /orders is an operation behind serve(), POST
// /accepted leaves the same one to workers, GET /accepted/:id tells what became of it, and POST /work is such a worker.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import pg from 'pg'
import { type HttpOptions, idempotency, serve, status } from '../../src/adapters/node.js'
import { type AfterFailure, createOnce, type Duration, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { armCrashPoints } from '../../src/testing/index.js'
import { childSettings, tellParent } from '../support/in-child.js'

export interface ServerSettings {
  url: string
  /** An advisory lock: work waits until the test lets go of it. */
  gate?: number
  lease?: Duration
  profile?: 'ietf' | 'stripe'
  afterFailure?: AfterFailure
  whenInProgress?: HttpOptions<IncomingMessage>['whenInProgress']
  wait?: Duration
}

/** What the service leaves behind, for tests to count. */
export interface Effect {
  key: string
  what: 'handled' | 'ordered' | 'finished'
  pid: number
}

const {
  url,
  gate,
  lease = '10m',
  profile = 'ietf',
  afterFailure = 'rerun',
  whenInProgress = 'conflict',
  wait = '5m',
} = childSettings<ServerSettings>()

const pool = new pg.Pool({ connectionString: url, max: 10 })
const gatePool = new pg.Pool({ connectionString: url, max: 2 })
const store = postgresStore(fromPg(pool))
/** The claims that were told to wait, each by its token. */
const met = new Set<string>()
const once = createOnce({
  lease,
  storeTimeout: '2m',
  store: {
    ...store,
    async keyClaim(claim) {
      const verdict = await store.keyClaim(claim)
      if (verdict.kind === 'in-progress') met.add(claim.owner)
      return verdict
    },
  },
})

async function leave(db: Pick<pg.Pool, 'query'>, key: string, what: Effect['what']): Promise<void> {
  await db.query('insert into effects (key, what, pid) values ($1, $2, $3)', [key, what, process.pid])
}

async function passGate(): Promise<void> {
  if (gate !== undefined) await gatePool.query('select pg_advisory_xact_lock_shared($1)', [gate])
}

const common = { tenant: 'single', profile, whenInProgress, wait } as const

async function handler(request: IncomingMessage, response: ServerResponse): Promise<void> {
  await leave(pool, String(request.headers['idempotency-key']), 'handled')
  await passGate()
  response.writeHead(201, { 'content-type': 'application/json' }).end(JSON.stringify({ by: process.pid }))
}

/** Two commits, with the gate inside of the second. */
const createOrder = once.operation('orders.create', {}, async (run) => {
  await run.phase('ordered', (tx) => leave(tx, run.idempotencyKey, 'ordered'))
  return run.finish(async (tx) => {
    await leave(tx, run.idempotencyKey, 'finished')
    await passGate()
    return reply(201, { by: process.pid, attempt: run.attempt })
  })
})

const accept = serve(createOrder, { ...common, respond: 'async', location: (id) => `/accepted/${id}` })
const tell = status(once, common)

const routes: Record<string, (request: IncomingMessage, response: ServerResponse) => unknown> = {
  '/handler': idempotency(once, { ...common, afterFailure })(handler),
  '/orders': serve(createOrder, common),
  '/accepted': (request, response) => (request.method === 'POST' ? accept : tell)(request, response),
  '/work': async (request, response) => {
    const outcome = await createOrder.resume({ tenant: 'single', key: String(request.headers['idempotency-key']) })
    response.end(outcome.kind)
  },
  // The name of the crash point at which this process dies by SIGKILL.
  '/die-at': async (request, response) => {
    const dieAt = await text(request)
    armCrashPoints((point) => {
      if (point === dieAt) process.kill(process.pid, 'SIGKILL')
    })
    response.end()
  },
  '/met': (_, response) => response.end(String(met.size)),
  '/begun': (_, response) => response.end(String(begun)),
  '/connections': (_, response) => server.getConnections((_error, count) => response.end(String(count))),
}

let begun = 0
const server = createServer(async (request, response) => {
  if (request.method === 'POST') begun += 1
  try {
    await routes[`/${request.url?.split('/')[1]}`]?.(request, response)
  } catch (error) {
    if (!response.headersSent) response.writeHead(500).end(String(error))
  }
})
// Checks the schema, and opens a connection, so that the first request is like any other.
await store.keyReap({ limit: 1 })
server.listen(0, '127.0.0.1', () => tellParent((server.address() as AddressInfo).port))
