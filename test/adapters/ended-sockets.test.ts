// Handlers that hang up on their client and never answer.
import Fastify from 'fastify'
import { describe, expect, test } from 'vitest'
import { idempotency as protectFastify } from '../../src/adapters/fastify.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { type Handler, type Stack, stacks, startService } from './node-service.js'

const database = useDatabase()

const onFastify: Stack = (handler, { once, options }) => {
  const app = Fastify()
  app.register(protectFastify(once, options))
  app.register(async (scope) => {
    scope.post('/work', async (request, reply) => {
      reply.hijack()
      await handler(request.raw, reply.raw)
    })
  })
  return (request, response) => void app.ready().then(() => app.routing(request, response))
}

const all: typeof stacks = [...stacks, ['Fastify 5', onFastify]]

describe.each(all)('%s', (_, stack) => {
  test.each<[name: string, end: Handler]>([
    ['its request', ({ socket }) => socket.end()],
    ['its response', (_request, { socket }) => socket?.end()],
  ])('a handler that ends the socket of %s: the client is let go, and the key is free after maxRun', async (_name, end) => {
    const service = await startService(database, ({ options, ...parts }) =>
      stack((request, response) => (parts.ran() === 1 ? end(request, response) : void response.writeHead(201).end('tea')), {
        ...parts,
        options: { ...options, maxRun: 1_000 } as typeof options,
      }),
    )
    await expect(service.send()).rejects.toMatchObject({ code: 'ECONNRESET' })
    expect((await service.send()).status).toBe(409)
    await waitUntil('the run has ended', async () => (await service.keyState()) !== 'processing')
    const retried = await service.send()
    expect([retried.status, retried.body.toString(), service.runs()]).toEqual([201, 'tea', 2])
  })
})
