import { type Context, Hono } from 'hono'
import { test } from 'vitest'
import { idempotency, serve, status, webhook } from '../../src/adapters/hono.js'
import { type AdapterApp, exerciseAdapter } from '../../src/testing/index.js'
import { connectionTo } from '../support/postgres/connection.js'
import { useDatabase } from '../support/postgres/database.js'
import { postgresHarness } from '../support/postgres/harness.js'
import { honoListener } from './hono-listener.js'
import { listen } from './listen.js'

const database = useDatabase()
const tenant = (c: Context) => c.req.header('x-tenant') as string

/** The kit's application, as a Hono user would write it. */
function appOf({ once, options, handle, operation, acceptance, consumer, signatures }: AdapterApp): Hono {
  const app = new Hono()
  app.onError((_, c) => c.text('failed', 500))
  if (operation) app.post('/operation', serve(operation, { tenant }))
  if (operation) app.post('/async', serve(operation, { tenant, ...acceptance }))
  app.get('/async/:id', status(once, { tenant }))
  if (consumer) app.post('/webhook', webhook(consumer, signatures))
  app.use(idempotency(once, { tenant, ...options }))
  app.all('*', async (c) => {
    const body = new Uint8Array(await c.req.arrayBuffer())
    const answer = await handle({ method: c.req.method, path: c.req.path, body })
    for (const [name, value] of answer.headers) c.header(name, value, { append: true })
    c.status(answer.status as 200)
    if ('json' in answer.body) return c.json(answer.body.json)
    if ('bytes' in answer.body) return c.body(new Uint8Array(answer.body.bytes))
    if ('pieces' in answer.body) return c.body(ReadableStream.from(answer.body.pieces) as ReadableStream)
    return c.body(null)
  })
  return app
}

exerciseAdapter({
  test,
  setup: async () => ({
    ...(await postgresHarness(connectionTo(database.pool))),
    start: (app) => listen(honoListener(appOf(app as AdapterApp).fetch)),
  }),
})
