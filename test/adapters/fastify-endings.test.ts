import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import type { FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import { Gate } from '../../src/testing/adapter-cases/adapter-case.js'
import { rawConnection } from '../../src/testing/adapter-cases/client.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { exerciseEndings } from './endings.js'
import { startProtected } from './fastify-app.js'
import { isReplay, jsonOf, type Service, textOf } from './service.js'

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

const bare = { body: null, headers: {} }

/** The same without the timeout, so that it does not matter how slow this machine is. */
const patiently = (service: Service, handler: RouteHandlerMethod) =>
  startProtected(database, (app) => void app.post('/work', handler), { service })

test("Fastify's handlerTimeout: the client gets its 503, the attempt goes on, and a retry replays what the handler answers", async () => {
  const go = new Gate()
  onTestFinished(go.open)
  let runs = 0
  /** With a timeout that is long enough for the handler to begin, and no longer. */
  async function timedOut(handlerTimeout = 50): Promise<Service> {
    let hasBegun = false
    const hang = async () => {
      hasBegun = true
      await go.opened
      return { runs: ++runs }
    }
    const service = await startProtected(database, (app) => void app.post('/work', { handlerTimeout }, hang))
    expect((await service.send(bare)).status).toBe(503)
    return hasBegun ? service : timedOut(handlerTimeout * 2)
  }
  const service = await timedOut()
  const retry = await (await patiently(service, async () => ({ runs: ++runs }))).send(bare)
  expect(retry.status).toBe(409)
  go.open()
  await waitUntil('the answer is stored', async () => (await service.stateOf()) === 'complete')
  const again = await (await patiently(service, async () => ({ runs: ++runs }))).send(bare)
  expect([again.status, isReplay(again), jsonOf(again)]).toEqual([200, true, { runs: 1 }])
})

test("Fastify's handlerTimeout while the key is being claimed: 503, nothing runs, and the key is free", async () => {
  const go = new Gate()
  let runs = 0
  const work = async () => ({ runs: ++runs })
  const before = (verb: string) => (verb === 'keyClaim' ? go.opened : undefined)
  const service = await startProtected(database, (app) => void app.post('/work', { handlerTimeout: 50 }, work), {
    once: { before, storeTimeout: '10m' },
    options: { afterFailure: 'park' },
  })
  expect((await service.send(bare)).status).toBe(503)
  go.open()
  await waitUntil('the key is given back', () => service.events.includes('released'))
  expect(runs).toBe(0)
  const first = await (await patiently(service, work)).send(bare)
  expect([first.status, isReplay(first), jsonOf(first)]).toEqual([200, false, { runs: 1 }])
})

test('a time-out of the service in front of the handler: its client gets the 503, and the handler ends the attempt', async () => {
  const go = new Gate()
  onTestFinished(go.open)
  let runs = 0
  const service = await startProtected(database, (app) => {
    app.addHook('onRequest', async (_request, reply) => {
      waitUntil('the handler has begun', () => runs > 0).then(() => reply.code(503).send({ error: 'too slow' }))
    })
    app.post('/work', async (_request, reply) => {
      runs += 1
      await go.opened
      return reply.code(201).send({ runs })
    })
  })
  expect((await service.send(bare)).status).toBe(503)
  go.open()
  await waitUntil('the answer is stored', async () => (await service.stateOf()) === 'complete')
  const again = await (await patiently(service, async () => ({ runs: ++runs }))).send(bare)
  expect([again.status, isReplay(again), jsonOf(again)]).toEqual([201, true, { runs: 1 }])
})

test('a handler that returns nothing when its client has gone ends its attempt', async () => {
  let hasBegun = false
  const service = await startProtected(database, (app) => {
    app.post('/work', async (request) => {
      const { socket } = request.raw
      hasBegun = true
      await waitUntil('the client has gone', () => socket.destroyed)
    })
  })
  const socket = await rawConnection(service.url)
  socket.write(`POST /work HTTP/1.1\r\nHost: a\r\nX-Tenant: ${service.tenant}\r\nIdempotency-Key: "key"\r\nContent-Length: 0\r\n\r\n`)
  await waitUntil('the handler has begun', () => hasBegun)
  socket.destroy()
  await waitUntil('the answer is stored', () => service.events.includes('finished'))
})

test.each<[string, (request: FastifyRequest, reply: FastifyReply) => unknown]>([
  [
    'that sends later, and returns its reply',
    async (_request, reply) => {
      setTimeout(() => reply.send('whole'), 20)
      return reply
    },
  ],
  [
    'that writes to a hijacked reply later',
    async (_request, reply) => {
      reply.hijack()
      setTimeout(() => reply.raw.end('whole'), 20)
    },
  ],
  ['that sends a stream', async (_request, reply) => reply.send(Readable.from(['who', 'le']))],
  ['that returns a stream', async () => Readable.from(['who', 'le'])],
  ['that returns a Response', async () => new Response('whole')],
  ['that pipes into reply.raw', async (_, { raw }) => pipeline(Readable.from(['who', 'le']), raw)],
  [
    'that reads the body then',
    async (request, reply) => {
      const body = await text(request.raw)
      return reply.send(body === 'tea' ? 'whole' : body)
    },
  ],
])('a client that goes: a handler %s runs once, and its answer is stored', async (_, answer) => {
  let runs = 0
  const service = await startProtected(database, (app) => {
    app.addContentTypeParser('application/x-tea', (_request, _payload, done) => done(null))
    app.post('/work', async (request, reply) => {
      const { socket } = request.raw
      runs += 1
      if (runs === 1) await waitUntil('the client has gone', () => socket.destroyed)
      // Fastify and its streams have noticed, too.
      await new Promise((resolve) => setImmediate(resolve))
      return answer(request, reply)
    })
  })
  const socket = await rawConnection(service.url)
  const head = `Host: a\r\nContent-Type: application/x-tea\r\nX-Tenant: ${service.tenant}\r\nIdempotency-Key: "key-1"\r\nContent-Length: 3`
  socket.write(`POST /work HTTP/1.1\r\n${head}\r\n\r\ntea`)
  await waitUntil('the handler has begun', () => runs === 1)
  socket.destroy()
  await waitUntil('the attempt has ended', () => service.events.includes('finished') || service.events.includes('released'))
  const again = await service.send({ headers: { 'content-type': 'application/x-tea' }, body: 'tea' })
  expect([again.status, isReplay(again), textOf(again), runs]).toEqual([200, true, 'whole', 1])
})
