import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { test } from 'vitest'
import { idempotency, serve, status, webhook } from '../../src/adapters/fastify.js'
import { type AdapterApp, exerciseAdapter } from '../../src/testing/index.js'
import { connectionTo } from '../support/postgres/connection.js'
import { useDatabase } from '../support/postgres/database.js'
import { postgresHarness } from '../support/postgres/harness.js'

const database = useDatabase()
const tenant = (request: FastifyRequest) => request.headers['x-tenant'] as string

/** The kit's application, as a Fastify user would write it. */
async function appOf({ once, options, handle, operation, acceptance, consumer, signatures }: AdapterApp): Promise<FastifyInstance> {
  const app = fastify({ bodyLimit: 10_000_000, forceCloseConnections: true })
  app.addContentTypeParser(['application/json', 'text/plain', '*'], { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
  if (operation) app.post('/operation', serve(operation, { tenant }))
  if (operation) app.post('/async', serve(operation, { tenant, ...acceptance }))
  app.get('/async/:id', status(once, { tenant }))
  if (consumer) app.post('/webhook', webhook(consumer, signatures))
  await app.register(async (scope) => {
    await scope.register(idempotency(once, { tenant, ...options }))
    scope.all('/*', async (request, reply) => {
      const body = Buffer.isBuffer(request.body) ? request.body : Buffer.of()
      return answer(reply, await handle({ method: request.method, path: request.url, body }))
    })
  })
  return app
}

function answer(reply: FastifyReply, { status, headers, body }: Awaited<ReturnType<AdapterApp['handle']>>): FastifyReply {
  reply.code(status)
  for (const name of new Set(headers.map(([name]) => name))) {
    const lines = headers.filter(([each]) => each === name).map(([, value]) => value)
    reply.header(name, lines.length === 1 ? lines[0] : lines)
  }
  // Fastify sends objects as JSON only.
  if ('json' in body) return reply.type('application/json').send(body.json)
  if ('bytes' in body) return reply.send(Buffer.from(body.bytes))
  if ('pieces' in body) return reply.send(Readable.from(body.pieces))
  return reply.send()
}

exerciseAdapter({
  test,
  setup: async () => ({
    ...(await postgresHarness(connectionTo(database.pool))),
    async start(app) {
      const server = await appOf(app as AdapterApp)
      await server.listen({ port: 0, host: '127.0.0.1' })
      return { url: `http://127.0.0.1:${(server.server.address() as AddressInfo).port}`, close: () => server.close() }
    },
  }),
})
