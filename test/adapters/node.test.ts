import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { test } from 'vitest'
import { idempotency, serve, status, webhook } from '../../src/adapters/node.js'
import { type AdapterApp, exerciseAdapter } from '../../src/testing/index.js'
import { connectionTo } from '../support/postgres/connection.js'
import { useDatabase } from '../support/postgres/database.js'
import { postgresHarness } from '../support/postgres/harness.js'
import { listen } from './listen.js'

const database = useDatabase()
const tenant = (request: IncomingMessage) => request.headers['x-tenant'] as string
/** The kit makes handlers fail; nobody need read of it. */
const onError = (_error: unknown, _request: IncomingMessage, response: ServerResponse) => void response.writeHead(500).end()

/** The kit's application, as one would write it without a framework. */
function listenerOf({ once, options, handle, operation, acceptance, consumer, signatures }: AdapterApp) {
  const routes: Record<string, ((request: IncomingMessage, response: ServerResponse) => unknown) | undefined> = {
    'POST operation': operation && serve(operation, { tenant, onError }),
    'POST async': operation && serve(operation, { tenant, onError, ...acceptance }),
    'GET async': status(once, { tenant, onError }),
    'HEAD async': status(once, { tenant, onError }),
    'POST webhook': consumer && webhook(consumer, { ...signatures, onError }),
  }
  const work = idempotency(once, { tenant, onError, ...options })(async (request, response) => {
    const { pathname: path } = new URL(request.url as string, 'http://localhost')
    const answer = await handle({ method: request.method as string, path, body: await buffer(request) })
    for (const [name, value] of answer.headers) response.appendHeader(name, value)
    if ('json' in answer.body) response.setHeader('content-type', 'application/json')
    response.writeHead(answer.status)
    if ('pieces' in answer.body) return Readable.from(answer.body.pieces).pipe(response)
    if ('json' in answer.body) return response.end(JSON.stringify(answer.body.json))
    return response.end('bytes' in answer.body ? answer.body.bytes : undefined)
  })
  return (request: IncomingMessage, response: ServerResponse) =>
    (routes[`${request.method} ${request.url?.split('/')[1]}`] ?? work)(request, response)
}

exerciseAdapter({
  test,
  setup: async () => ({ ...(await postgresHarness(connectionTo(database.pool))), start: (app) => listen(listenerOf(app as AdapterApp)) }),
})
