import { getRequestListener } from '@hono/node-server'
import { describe, test } from 'vitest'
import { idempotency, serve, status, webhook } from '../../src/adapters/fetch.js'
import { type AdapterApp, exerciseAdapter } from '../../src/testing/index.js'
import { connectionTo } from '../support/postgres/connection.js'
import { useDatabase } from '../support/postgres/database.js'
import { postgresHarness } from '../support/postgres/harness.js'
import { fetchListener } from './fetch-listener.js'
import { listen } from './listen.js'

const database = useDatabase()
const tenant = (request: Request) => request.headers.get('x-tenant') as string

/** The kit's application, as a file of route handlers would have it. */
function appOf({
  once,
  options,
  handle,
  operation,
  acceptance,
  consumer,
  signatures,
}: AdapterApp): (request: Request) => Promise<Response> {
  const routes: Record<string, ((request: Request) => Promise<Response>) | undefined> = {
    'POST operation': operation && serve(operation, { tenant }),
    'POST async': operation && serve(operation, { tenant, ...acceptance }),
    'GET async': status(once, { tenant }),
    'HEAD async': status(once, { tenant }),
    'POST webhook': consumer && webhook(consumer, signatures),
  }
  const any = idempotency(once, { tenant, ...options })(async (request) => {
    const { pathname } = new URL(request.url)
    const answer = await handle({ method: request.method, path: pathname, body: new Uint8Array(await request.arrayBuffer()) })
    const { status, body } = answer
    const headers = new Headers()
    // The standard joins the lines of a name, but for cookies.
    for (const [name, value] of answer.headers) headers.append(name, value)
    if ('json' in body) return Response.json(body.json, { status, headers })
    if ('bytes' in body) return new Response(new Uint8Array(body.bytes), { status, headers })
    if ('pieces' in body) return new Response(ReadableStream.from(body.pieces) as ReadableStream, { status, headers })
    return new Response(null, { status, headers })
  })
  return async (request) => {
    const route = routes[`${request.method} ${new URL(request.url).pathname.split('/')[1]}`]
    return route ? route(request) : any(request)
  }
}

describe.each([
  ['a plain bridge', fetchListener],
  ['@hono/node-server', (app: ReturnType<typeof appOf>) => getRequestListener(app, { overrideGlobalObjects: false })],
])('fetch on %s', (_, listenerOf) => {
  exerciseAdapter({
    test,
    setup: async () => ({
      ...(await postgresHarness(connectionTo(database.pool))),
      start: (app) => listen(listenerOf(appOf(app as AdapterApp))),
    }),
  })
})
