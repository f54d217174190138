import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { Gate } from '../../src/testing/adapter-cases/adapter-case.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { exerciseEndings } from './endings.js'
import { startProtected } from './fastify-app.js'
import { isReplay, jsonOf, textOf } from './service.js'

const database = useDatabase()

exerciseEndings(database, async ({ service, options, handle }) => {
  const { app, url } = await startProtected(
    database,
    (building) => {
      building.post('/work', async (request) => handle(request))
    },
    { service, options },
  )
  return { url, close: () => app.close() }
})

test('a stream that breaks half-way ends the connection and the attempt: a retry runs again', async () => {
  let runs = 0
  const service = await startProtected(database, (app) => {
    app.post('/work', async (_request, reply) => {
      runs += 1
      return reply.send(Readable.from(runs === 1 ? broken() : ['whole']))
    })
  })
  await expect(service.send()).rejects.toThrow('socket hang up')
  await waitUntil('the key is given back', () => service.events.includes('released'))
  expect(textOf(await service.send())).toBe('whole')
})

test('a stream that breaks before its first piece is a 500', async () => {
  const service = await startProtected(database, (app) => {
    app.post('/work', async (_request, reply) =>
      reply.send(new Readable({ read: (_) => {}, construct: (done) => done(new Error('no file')) })),
    )
  })
  expect((await service.send()).status).toBe(500)
  expect(service.events).toContain('released')
})

async function* broken() {
  yield 'half'
  await new Promise((resolve) => setImmediate(resolve))
  throw new Error('the disk is gone')
}

test("Fastify's handlerTimeout: its 503 ends the attempt, and what the handler answers later harms nobody", async () => {
  const go = new Gate()
  let runs = 0
  const service = await startProtected(database, (app) => {
    app.post('/work', { handlerTimeout: 50 }, async () => {
      runs += 1
      if (runs === 1) await go.opened
      return { runs }
    })
  })
  expect((await service.send({ body: null, headers: {} })).status).toBe(503)
  expect(service.events).toContain('released')
  go.open()
  expect(jsonOf(await service.send({ body: null, headers: {} }))).toEqual({ runs: 2 })
})

test("Fastify's handlerTimeout while the key is being claimed: 503; the work is done all the same, and a retry replays it", async () => {
  const go = new Gate()
  let runs = 0
  const service = await startProtected(
    database,
    (app) => {
      app.post('/work', { handlerTimeout: 50 }, async () => ({ runs: ++runs }))
    },
    { once: { before: (verb) => (verb === 'keyClaim' ? go.opened : undefined), storeTimeout: '60s' } },
  )
  const bare = { body: null, headers: {} }
  expect((await service.send(bare)).status).toBe(503)
  go.open()
  await waitUntil('the answer is stored', async () => (await service.stateOf()) === 'complete')
  const again = await service.send(bare)
  expect([again.status, isReplay(again), jsonOf(again), runs]).toEqual([200, true, { runs: 1 }, 1])
})
