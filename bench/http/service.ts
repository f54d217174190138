// One HTTP service, in a process of its own: POST /orders, bare or guarded. Tells its port, and ends when its standard input does.
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import process from 'node:process'
import { Idempotency } from '@node-idempotency/core'
import { RedisStorageAdapter } from '@node-idempotency/storage-adapter-redis'
import express, { type RequestHandler } from 'express'
import fastify, { type FastifyInstance, type FastifyRequest } from 'fastify'
import { Redis } from 'ioredis'
import { createOnce } from 'oncekey'
import { idempotency as guardExpress } from 'oncekey/express'
import { idempotency as guardFastify } from 'oncekey/fastify'
import { fromPg, postgresStore } from 'oncekey/postgres'
import { fromIoredis, redisFilter } from 'oncekey/redis'
import pg from 'pg'
import type { ServiceSettings } from './start-service.js'

const require = createRequire(import.meta.url)
const settings: ServiceSettings = JSON.parse(process.argv[2] as string)
const answer = (item: unknown) => ({ id: 'ord_1', item, note: 'a'.repeat(260) })
const port = settings.framework === 'fastify' ? await startFastify() : await startExpress()
process.stdin.on('end', () => process.exit(0)).resume()
console.log(port)

function once() {
  const pool = new pg.Pool({ connectionString: settings.databaseUrl, max: 16, idleTimeoutMillis: 0 })
  pool.on('error', () => {})
  const store = postgresStore(fromPg(pool))
  if (settings.guard === 'oncekey with a cache') return createOnce({ store, answerCache: { maxBytes: 64 * 1024 * 1024 } })
  if (settings.guard !== 'oncekey behind Redis') return createOnce({ store })
  const redis = fromIoredis(new Redis(settings.redisUrl as string))
  return createOnce({ store: redisFilter(store, redis, { secrets: [{ id: 'bench', key: Buffer.alloc(32, 'bench') }] }) })
}

async function startFastify(): Promise<number> {
  const app = fastify()
  if (settings.guard.startsWith('oncekey')) await app.register(guardFastify(once(), { tenant: 'single', afterFailure: 'rerun' }))
  if (settings.guard === 'node-idempotency') await nodeIdempotency(app)
  app.post('/orders', async (request, reply) => reply.code(201).send(answer((request.body as { item: string }).item)))
  await app.listen({ port: 0, host: '127.0.0.1' })
  return (app.server.address() as AddressInfo).port
}

async function startExpress(): Promise<number> {
  const app = express()
  app.disable('etag')
  if (settings.guard === 'oncekey') app.use(guardExpress(once(), { tenant: 'single', afterFailure: 'rerun' }))
  app.use(express.json())
  let isAnswered: (request: express.Request) => boolean = () => false
  if (settings.guard === 'express-idempotency') {
    const { guard, isHit } = await expressIdempotency()
    app.use(guard)
    isAnswered = isHit
  }
  app.post('/orders', (request, response) => {
    if (!isAnswered(request)) response.status(201).json(answer(request.body.item))
  })
  const server = app.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  return (server.address() as AddressInfo).port
}

/** Its core as its README says, from the two hooks in which a plugin for Fastify has what the core asks for. */
async function nodeIdempotency(app: FastifyInstance): Promise<void> {
  const adapter = new RedisStorageAdapter({ url: settings.redisUrl as string })
  await adapter.connect()
  const idempotency = new Idempotency(adapter)
  const replayed = new WeakSet<FastifyRequest>()
  const asked = ({ headers, url, body, method }: FastifyRequest) => ({ headers, path: url, body: body as Record<string, unknown>, method })
  app.addHook('preHandler', async (request, reply) => {
    const known = await idempotency.onRequest<string, unknown>(asked(request))
    if (!known) return
    replayed.add(request)
    return reply
      .code(known.additional?.statusCode as number)
      .type('application/json; charset=utf-8')
      .send(known.body)
  })
  app.addHook('onSend', async (request, reply, payload) => {
    if (replayed.has(request)) return
    await idempotency.onResponse(asked(request), { body: payload, additional: { statusCode: reply.statusCode } })
  })
}

/** As its README and that of its Redis adapter say. */
async function expressIdempotency(): Promise<{ guard: RequestHandler; isHit(request: express.Request): boolean }> {
  const { idempotency, getSharedIdempotencyService } = await import('express-idempotency')
  type Adapter = { default: typeof import('express-idempotency-redis-adapter').default }
  const { default: RedisAdapter }: Adapter = require('express-idempotency-redis-adapter')
  const dataAdapter = new RedisAdapter({ connectionConfig: { url: settings.redisUrl as string } })
  await dataAdapter.connect()
  const guard = idempotency({ dataAdapter } as never) as unknown as RequestHandler
  return { guard, isHit: (request) => getSharedIdempotencyService().isHit(request as never) }
}
