import { Readable } from 'node:stream'
import express from 'express'
import express4 from 'express-4'
import { describe, test } from 'vitest'
import { idempotency, serve, status, webhook } from '../../src/adapters/express.js'
import { type AdapterApp, exerciseAdapter } from '../../src/testing/index.js'
import { connectionTo } from '../support/postgres/connection.js'
import { useDatabase } from '../support/postgres/database.js'
import { postgresHarness } from '../support/postgres/harness.js'
import { listen } from './listen.js'

const database = useDatabase()
const tenant = (request: express.Request) => request.get('x-tenant') as string

/** The kit's application, as an Express user would write it. */
function appOf(
  framework: typeof express,
  { once, options, handle, operation, acceptance, consumer, signatures }: AdapterApp,
): express.Express {
  const app = framework()
  app.set('env', 'test')
  if (operation) app.post('/operation', serve(operation, { tenant }))
  if (operation) app.post('/async', serve(operation, { tenant, ...acceptance }))
  app.get('/async/:id', status(once, { tenant }))
  if (consumer) app.post('/webhook', webhook(consumer, signatures))
  app.use(idempotency(once, { tenant, ...options }))
  app.use(framework.raw({ type: () => true, limit: '10mb' }))
  app.use(async (request: express.Request, response: express.Response, next: express.NextFunction) => {
    try {
      const body = Buffer.isBuffer(request.body) ? request.body : Buffer.of()
      const answer = await handle({ method: request.method, path: request.path, body })
      response.status(answer.status)
      for (const [name, value] of answer.headers) response.append(name, value)
      if ('json' in answer.body) response.json(answer.body.json)
      else if ('bytes' in answer.body) response.send(Buffer.from(answer.body.bytes))
      else if ('pieces' in answer.body) Readable.from(answer.body.pieces).pipe(response)
      else response.end()
    } catch (error) {
      next(error)
    }
  })
  return app
}

describe.each([
  ['Express 5', express],
  ['Express 4', express4],
])('%s', (_, framework) => {
  exerciseAdapter({
    test,
    setup: async () => ({
      ...(await postgresHarness(connectionTo(database.pool))),
      start: (app) => listen(appOf(framework, app as AdapterApp)),
    }),
  })
})
