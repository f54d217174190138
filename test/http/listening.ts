import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import { type IdempotencyOptions, idempotency } from '../../src/adapters/node.js'
import { createOnce, type OnceOptions } from '../../src/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { connectionTo } from '../support/postgres/connection.js'
import type { TestDatabase } from '../support/postgres/database.js'
import { type ClientParts, post } from './client.js'

export type Handler = (request: IncomingMessage, response: ServerResponse, n: number) => unknown
export type Options = Partial<IdempotencyOptions<IncomingMessage>> & Pick<OnceOptions, 'maxAnswerBytes'>

/** A server of its own for a handler behind `idempotency()`. */
export async function protectOn(database: TestDatabase, handler: Handler, { maxAnswerBytes = 1_000_000, ...options }: Options = {}) {
  const once = createOnce({ store: postgresStore(connectionTo(database.pool)), lease: '10m', maxAnswerBytes })
  const tenant = crypto.randomUUID()
  let runs = 0
  const listener = idempotency(once, { tenant: () => tenant, afterFailure: 'rerun', ...options })((request, response) => {
    runs += 1
    return handler(request, response, runs)
  })
  return { ...(await listening(listener)), tenant, runs: () => runs }
}

export async function listening(listener: (request: IncomingMessage, response: ServerResponse) => unknown) {
  const server = createServer((request, response) => {
    if (request.url === '/ping') return response.end('pong')
    return listener(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return { port, send: (parts: ClientParts) => post(port, parts) }
}
