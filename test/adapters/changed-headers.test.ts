// Headers that a middleware or a serverless adapter has put there: `rawHeaders` does not know them, and everyone else goes by `headers`.
import type { IncomingMessage } from 'node:http'
import Fastify from 'fastify'
import { describe, expect, test } from 'vitest'
import { idempotency as protectFastify } from '../../src/adapters/fastify.js'
import { useDatabase } from '../support/postgres/database.js'
import { type Stack, stacks, startService } from './node-service.js'

const database = useDatabase()

const onFastify: Stack = (handler, { once, options }, before = async () => {}) => {
  const app = Fastify()
  app.addHook('onRequest', (request) => before(request.raw))
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

function setKey(request: IncomingMessage): void {
  request.headers['idempotency-key'] = String(request.headers['x-key'])
}

describe.each(all)('%s', (_, stack) => {
  const start = (change: (request: IncomingMessage) => void) =>
    startService(database, (parts) =>
      stack(
        (_request, response) => {
          response.writeHead(201).end(String(parts.ran()))
        },
        parts,
        async (request) => change(request),
      ),
    )

  test.each<[string, (request: IncomingMessage) => void]>([
    ['set in front of the layer', setKey],
    [
      'of a request that has no raw headers',
      (request) => {
        setKey(request)
        request.rawHeaders = []
      },
    ],
  ])('a key %s is a key', async (_, change) => {
    const service = await start(change)
    const request = { key: null, headers: { 'content-type': 'application/json', 'x-key': '"key-1"' } }
    expect((await service.send(request)).body.toString()).toBe('1')
    expect((await service.send(request)).body.toString()).toBe('1')
    expect(await service.keyState()).toBe('complete')
  })

  test('a key that was replaced in front of the layer is the key', async () => {
    const service = await start(setKey)
    const send = (key: string, replaced: string) =>
      service.send({ key, headers: { 'content-type': 'application/json', 'x-key': replaced } }).then(({ body }) => body.toString())
    expect([await send('"raw"', '"a"'), await send('"raw"', '"b"'), await send('"other"', '"a"')]).toEqual(['1', '2', '1'])
  })

  test('a key that was taken away in front of the layer is none', async () => {
    const service = await start((request) => void delete request.headers['idempotency-key'])
    expect((await service.send()).body.toString()).toBe('1')
    expect((await service.send()).body.toString()).toBe('2')
  })
})
