// Other libraries, each in its documented use.
import { createRequire } from 'node:module'
import { Idempotency } from '@node-idempotency/core'
import { RedisStorageAdapter } from '@node-idempotency/storage-adapter-redis'
import type { Request, RequestHandler } from 'express'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { ServiceSettings } from './start-service.js'

const require = createRequire(import.meta.url)

/** Its core as its README says, from the two hooks in which a plugin for Fastify has what the core asks for. */
export async function nodeIdempotency(app: FastifyInstance, settings: ServiceSettings): Promise<void> {
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
export async function expressIdempotency(settings: ServiceSettings): Promise<{ guard: RequestHandler; isHit(request: Request): boolean }> {
  const { idempotency, getSharedIdempotencyService } = await import('express-idempotency')
  type Adapter = { default: typeof import('express-idempotency-redis-adapter').default }
  const { default: RedisAdapter }: Adapter = require('express-idempotency-redis-adapter')
  const dataAdapter = new RedisAdapter({ connectionConfig: { url: settings.redisUrl as string } })
  await dataAdapter.connect()
  const guard = idempotency({ dataAdapter } as never) as unknown as RequestHandler
  return { guard, isHit: (request) => getSharedIdempotencyService().isHit(request as never) }
}
