import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify'
import { expect, test } from 'vitest'
import type { Answered } from '../../src/testing/adapter-cases/client.js'
import { useDatabase } from '../support/postgres/database.js'
import { complaints, startProtected } from './fastify-app.js'
import { isReplay, jsonOf, textOf } from './service.js'

const database = useDatabase()

/** The headers that must be the same in a replay. */
const kept = ['content-type', 'content-length', 'location', 'x-custom']

async function replaysAlike(handler: RouteHandlerMethod): Promise<Answered> {
  let runs = 0
  const service = await startProtected(database, (app) => {
    app.post('/work', function (request, reply) {
      runs += 1
      return handler.call(this, request, reply)
    })
  })
  const [first, again] = await service.twice()
  expect(isReplay(first)).toBe(false)
  expect(isReplay(again)).toBe(true)
  expect(runs).toBe(1)
  expect(again.status).toBe(first.status)
  expect(again.body).toEqual(first.body)
  for (const name of kept) expect(again.lines(name), name).toEqual(first.lines(name))
  expect(complaints(service)).toEqual([])
  return first
}

const webStream = (...pieces: string[]) => new Blob(pieces).stream()

test.each<[string, (reply: FastifyReply) => unknown, string, string | undefined]>([
  ['an object', (reply) => reply.send({ ok: true }), '{"ok":true}', 'application/json; charset=utf-8'],
  ['a text', (reply) => reply.send('hello'), 'hello', 'text/plain; charset=utf-8'],
  ['an empty text', (reply) => reply.send(''), '', 'text/plain; charset=utf-8'],
  ['a Buffer', (reply) => reply.send(Buffer.from('bytes')), 'bytes', 'application/octet-stream'],
  ['a Uint8Array', (reply) => reply.send(new TextEncoder().encode('octets')), 'octets', 'application/octet-stream'],
  ['a stream', (reply) => reply.type('text/csv').send(Readable.from(['a,b\n', '1,2\n'])), 'a,b\n1,2\n', 'text/csv'],
  ['a web stream', (reply) => reply.type('text/csv').send(webStream('a,', 'b')), 'a,b', 'text/csv'],
  ['null', (reply) => reply.send(null), 'null', 'application/json; charset=utf-8'],
  ['undefined', (reply) => reply.send(undefined), '', undefined],
  ['nothing', (reply) => reply.send(), '', undefined],
])('reply.send: %s', async (_, answer, body, type) => {
  const first = await replaysAlike((_request, reply) => {
    answer(reply)
  })
  expect([first.status, textOf(first), first.lines('content-type')[0]]).toEqual([200, body, type])
})

test('reply.send: a Response, with its status and headers', async () => {
  const first = await replaysAlike((_request, reply) => {
    reply.send(new Response('made', { status: 201, headers: { 'x-custom': 'kept', location: '/orders/1' } }))
  })
  expect([first.status, textOf(first), first.lines('location')]).toEqual([201, 'made', ['/orders/1']])
})

test.each<[string, () => unknown, number, string]>([
  ['an object', () => ({ ok: true }), 200, '{"ok":true}'],
  ['a text', () => 'hello', 200, 'hello'],
  ['null', () => null, 200, 'null'],
  ['a stream', () => Readable.from(['one ', 'two']), 200, 'one two'],
  ['a Response', () => new Response('made', { status: 202 }), 202, 'made'],
  ['nothing at all', () => undefined, 200, ''],
])('the value of an async handler: %s', async (_, value, status, body) => {
  const first = await replaysAlike(async () => value())
  expect([first.status, textOf(first)]).toEqual([status, body])
})

test('an async handler that sends and returns its reply', async () => {
  const first = await replaysAlike(async (_request, reply) => reply.code(201).send({ ok: true }))
  expect([first.status, jsonOf(first)]).toEqual([201, { ok: true }])
})

test('an async handler that sends later, outside of its promise', async () => {
  const first = await replaysAlike(async (_request, reply) => {
    setImmediate(() => reply.code(201).send({ ok: true }))
    return reply
  })
  expect([first.status, jsonOf(first)]).toEqual([201, { ok: true }])
})

test('a plain handler that returns a value', async () => {
  expect(jsonOf(await replaysAlike(() => ({ ok: true })))).toEqual({ ok: true })
})

test('reply.raw behind hijack()', async () => {
  const first = await replaysAlike((_request, reply) => {
    reply.hijack()
    reply.raw.writeHead(201, { 'content-type': 'text/plain', 'x-custom': 'kept' })
    reply.raw.write('one ')
    setImmediate(() => reply.raw.end('two'))
  })
  expect([first.status, textOf(first), first.lines('x-custom')]).toEqual([201, 'one two', ['kept']])
})

test('reply.raw without hijack(), in an async handler', async () => {
  const first = await replaysAlike(async (_request, { raw }) => {
    raw.statusCode = 201
    raw.setHeader('x-custom', 'kept')
    raw.write('one ')
    raw.end('two')
  })
  expect([first.status, textOf(first), first.lines('x-custom')]).toEqual([201, 'one two', ['kept']])
})

test('reply.raw without hijack(), ended later', async () => {
  const first = await replaysAlike((_request, { raw }) => {
    raw.writeHead(201)
    setImmediate(() => raw.end('later'))
  })
  expect([first.status, textOf(first)]).toEqual([201, 'later'])
})

test.each<[string, (reply: FastifyReply) => unknown, number]>([
  ['as it is', (reply) => reply.redirect('/orders/1'), 302],
  ['with a status', (reply) => reply.redirect('/orders/1', 303), 303],
])('reply.redirect, %s', async (_, answer, status) => {
  const first = await replaysAlike(async (_request, reply) => answer(reply))
  expect([first.status, first.lines('location')]).toEqual([status, ['/orders/1']])
})

test('reply.code(204).send()', async () => {
  const first = await replaysAlike(async (_request, reply) => reply.code(204).header('x-custom', 'kept').send())
  expect([first.status, first.body.length, first.lines('x-custom')]).toEqual([204, 0, ['kept']])
})

test('a 204 whose handler sends a body all the same', async () => {
  const first = await replaysAlike(async (_request, reply) => reply.code(204).send({ ignored: true }))
  expect([first.status, first.body.length]).toEqual([204, 0])
})

test('a serializer of its own, and one of the response schema', async () => {
  const shouting = (payload: unknown) => JSON.stringify(payload).toUpperCase()
  const first = await replaysAlike(async (_request, reply) => reply.type('text/shout').serializer(shouting).send({ ok: 1 }))
  expect([textOf(first), first.lines('content-type')]).toEqual(['{"OK":1}', ['text/shout']])

  const response = { 201: { type: 'object', properties: { id: { type: 'string' } } } }
  const service = await startProtected(database, (app) => {
    app.post('/work', { schema: { response } }, async (_request: FastifyRequest, reply: FastifyReply) => {
      return reply.code(201).send({ id: 7, secret: 'dropped' })
    })
  })
  const [filtered, again] = await service.twice()
  expect([jsonOf(filtered), jsonOf(again)]).toEqual([{ id: '7' }, { id: '7' }])
})

test('trailers reach the first caller; a replay has the same body and no trailers', async () => {
  const service = await startProtected(database, (app) => {
    app.post('/work', (_request, reply) => {
      reply.trailer('x-sum', async () => 'abc')
      reply.send('hello')
    })
  })
  const [first, again] = await service.twice()
  expect([first.lines('trailer'), textOf(first)]).toEqual([['x-sum'], 'hello'])
  expect([again.lines('trailer'), textOf(again), isReplay(again)]).toEqual([[], 'hello', true])
})

test.each<[string, (reply: FastifyReply) => unknown]>([
  ['throws', () => Promise.reject(new Error('too late'))],
  ['sends another answer', (reply) => reply.code(500).send({ error: 'too late' })],
  ['sets a status and headers', (reply) => reply.code(500).type('application/json').header('x-custom', 'too late')],
  ['removes headers', (reply) => reply.removeHeader('content-type')],
])('a handler that answers, and then %s: its first caller gets what is stored', async (_, then) => {
  const service = await startProtected(database, (app) => {
    app.post('/work', async (_request, reply) => {
      reply.send('done')
      await then(reply)
    })
  })
  const [first, again] = await service.twice()
  for (const answered of [first, again]) {
    expect([answered.status, textOf(answered), answered.lines('x-custom')]).toEqual([200, 'done', []])
    expect(answered.lines('content-type')).toEqual(['text/plain; charset=utf-8'])
  }
  expect(isReplay(again)).toBe(true)
})
