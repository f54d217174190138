import { once as eventOf } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import express, { type Request } from 'express'
import type pg from 'pg'
import { onTestFinished } from 'vitest'
import { idempotency as protectExpress } from '../../src/adapters/express.js'
import { type IdempotencyOptions, idempotency as protectNode } from '../../src/adapters/node.js'
import { createOnce, type Once, type OnceEvent, type OnceOptions } from '../../src/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { connectionTo } from '../support/postgres/connection.js'
import { waitUntil } from '../support/wait-until.js'
import { type Gate, gate } from './gate.js'

/** The ways to build the same service: who reads the body behind the layer, and whether anybody does. */
export const stacks = ['node:http', 'node:http, body unread', 'express', 'express, express.json() behind'] as const

export type Stack = (typeof stacks)[number]

export interface ChargesService {
  readonly port: number
  readonly url: string
  /** How often the work ran. */
  runs(): number
  /** Holds requests whose body is read and whose key is not claimed yet. */
  readonly beforeClaim: Gate
  /** Holds the work, before it reads the body. */
  readonly work: Gate
  /** How often something of this type happened to a key. */
  seen(type: OnceEvent['type']): number
  /** Connections that are open on the server's side. */
  connections(): number
  /** Waits until no key is held by anybody: whatever clients did, nothing is wedged. */
  untilNothingIsHeld(): Promise<void>
}

export interface ServiceOptions {
  readonly stack?: Stack
  readonly http?: Partial<IdempotencyOptions<IncomingMessage>>
  readonly once?: Partial<OnceOptions<pg.PoolClient>>
  /** Takes header lines that Node refuses otherwise. */
  readonly insecureHTTPParser?: boolean
  /** Instead of an answer that tells the number of the run and the body. */
  readonly answer?: (response: ServerResponse) => void
}

/** A service with one kind of work, on a real socket and a real database. */
export async function startCharges(pool: pg.Pool, options: ServiceOptions = {}): Promise<ChargesService> {
  const beforeClaim = gate()
  const work = gate()
  const sockets = new Set<Socket>()
  const events: OnceEvent[] = []
  let runs = 0
  const once = createOnce({ store: postgresStore(connectionTo(pool)), onEvent: (event) => events.push(event), ...options.once })

  async function begin(): Promise<number> {
    runs += 1
    const run = runs
    await work.pass()
    return run
  }

  const http: IdempotencyOptions<IncomingMessage> = {
    async tenant() {
      await beforeClaim.pass()
      return 'acme'
    },
    afterFailure: 'rerun',
    ...options.http,
  }
  const { stack = 'node:http', insecureHTTPParser = false, answer = () => {} } = options
  const server = createServer({ insecureHTTPParser }, listenerOf(stack, { once, http, begin, answer }))
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  server.listen(0, '127.0.0.1')
  await eventOf(server, 'listening')
  onTestFinished(async () => {
    beforeClaim.open()
    work.open()
    server.close()
    server.closeAllConnections()
  })

  const { port } = server.address() as AddressInfo
  return {
    port,
    url: `http://127.0.0.1:${port}/charges`,
    runs: () => runs,
    beforeClaim,
    work,
    seen: (type) => events.filter((event) => event.type === type).length,
    connections: () => sockets.size,
    async untilNothingIsHeld() {
      await waitUntil('no key is held', async () => {
        const { rows } = await pool.query("select 1 from oncekey.keys where state in ('pending', 'processing')")
        return rows.length === 0
      })
    },
  }
}

interface Parts {
  readonly once: Once<pg.PoolClient>
  readonly http: IdempotencyOptions<IncomingMessage>
  begin(): Promise<number>
  readonly answer: (response: ServerResponse) => void
}

function listenerOf(stack: Stack, { once, http, begin, answer }: Parts): RequestListener {
  const respond = (response: ServerResponse, run: number, body: unknown) => {
    response.setHeader('content-type', 'application/json')
    response.statusCode = 201
    answer(response)
    if (!response.writableEnded && !response.headersSent) response.end(JSON.stringify({ run, body }))
  }
  if (stack === 'node:http' || stack === 'node:http, body unread') {
    return protectNode(
      once,
      http,
    )(async (request, response) => {
      const run = await begin()
      respond(response, run, stack === 'node:http' ? await textOf(request) : 'unread')
    })
  }
  const app = express()
  app.use(protectExpress(once, http as IdempotencyOptions<Request>))
  app.use(async (_request, response, next) => {
    response.locals.run = await begin()
    next()
  })
  if (stack === 'express, express.json() behind') app.use(express.json())
  app.all('/charges', async (request, response) => {
    respond(response, response.locals.run as number, request.body === undefined ? await textOf(request) : JSON.stringify(request.body))
  })
  return app
}

function textOf(request: IncomingMessage): Promise<string> {
  return new Promise((resolve, reject) => {
    const pieces: Buffer[] = []
    request.on('data', (piece: Buffer) => pieces.push(piece))
    request.on('end', () => resolve(Buffer.concat(pieces).toString()))
    request.on('error', reject)
  })
}
