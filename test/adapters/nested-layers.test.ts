import express from 'express'
import { expect, onTestFinished, test } from 'vitest'
import { idempotency, serve } from '../../src/adapters/express.js'
import { createOnce, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { listen } from './listen.js'

const database = useDatabase()

test('an operation that is served behind idempotency() is refused, and says how to mount it', async () => {
  const once = createOnce({ store: postgresStore(fromPg(database.pool)) })
  let runs = 0
  const operation = once.operation('nested', {}, async () => {
    runs += 1
    return reply(201)
  })
  const errors: unknown[] = []
  const app = express()
  app.post('/beside', serve(operation, { tenant: 'single' }))
  app.use(idempotency(once, { tenant: 'single', afterFailure: 'rerun' }))
  app.post('/behind', serve(operation, { tenant: 'single' }))
  app.use((error: unknown, _request: express.Request, response: express.Response, _next: express.NextFunction) => {
    errors.push(error)
    response.status(500).end()
  })
  const { url, close } = await listen(app)
  onTestFinished(close)
  const post = async (path: string) => (await fetch(url + path, { method: 'POST', headers: { 'idempotency-key': path } })).status

  expect(await post('/behind')).toBe(500)
  expect(runs).toBe(0)
  expect(errors).toMatchObject([{ code: 'layers_nested' }])
  expect(await post('/beside')).toBe(201)
  expect(runs).toBe(1)
})
