// The ways in which Koa answers.
import { Readable } from 'node:stream'
import type { Context, Middleware } from 'koa'
import { describe, expect, test } from 'vitest'
import { Gate } from '../../src/testing/adapter-cases/adapter-case.js'
import { rawConnection, rawRequest } from '../../src/testing/adapter-cases/client.js'
import { manualClock } from '../../src/testing/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { startKoa } from './koa-service.js'
import { isReplay, replaysAlike, useQuietProcess } from './node-service.js'

const database = useDatabase()
useQuietProcess()

type Answer = (ctx: Context) => unknown

const body =
  (value: unknown, status?: number): Answer =>
  (ctx) => {
    ctx.body = value
    if (status) ctx.status = status
  }

const ways: [name: string, answer: Answer, status: number, body: string, names?: string[]][] = [
  ['a text', body('tea', 201), 201, 'tea'],
  ['a text of HTML', body('<b>tea</b>'), 200, '<b>tea</b>'],
  ['an empty text', body(''), 200, ''],
  ['a Buffer', body(Buffer.from('tea')), 200, 'tea'],
  ['JSON', body({ item: 'tea' }, 201), 201, '{"item":"tea"}'],
  ['a list', body(['tea']), 200, '["tea"]'],
  ['null', body(null), 204, ''],
  ['null with a status', body(null, 201), 201, ''],
  ['null as JSON', (ctx) => Object.assign(ctx, { status: 200, type: 'json', body: null }), 200, 'null'],
  ['a status alone', (ctx) => Object.assign(ctx, { status: 201 }), 201, 'Created'],
  ['a status and a message', (ctx) => Object.assign(ctx, { status: 201, message: 'Brewed' }), 201, 'Brewed'],
  ['a stream', (ctx) => Object.assign(ctx, { body: Readable.from(['a pot ', 'of tea']) }), 200, 'a pot of tea'],
  ['an empty stream', (ctx) => Object.assign(ctx, { body: Readable.from([]) }), 200, ''],
  ['a web stream', (ctx) => Object.assign(ctx, { body: new Blob(['tea']).stream() }), 200, 'tea'],
  ['a Blob', (ctx) => Object.assign(ctx, { body: new Blob(['tea']), type: 'text/x-tea' }), 200, 'tea'],
  [
    'a Response',
    (ctx) => Object.assign(ctx, { body: new Response('tea', { status: 202, headers: { 'x-pot': '1' } }) }),
    202,
    'tea',
    ['x-pot'],
  ],
  ['an empty Response', (ctx) => Object.assign(ctx, { body: new Response(null, { status: 200 }) }), 200, ''],
  ['a redirect', (ctx) => ctx.redirect('/orders/1'), 302, 'Redirecting to /orders/1.', ['location']],
  ['headers', (ctx) => headed(ctx), 200, 'tea', ['link', 'etag', 'last-modified', 'vary', 'content-disposition']],
  ['a body without a type', (ctx) => untyped(ctx), 200, 'tea'],
  ['a stream without a type', (ctx) => untyped(ctx, Readable.from(['tea'])), 200, 'tea'],
  ['nothing', () => {}, 404, 'Not Found'],
  ['ctx.throw(402)', (ctx) => ctx.throw(402, 'no money'), 402, 'no money'],
  ['ctx.throw(402) with headers', (ctx) => ctx.throw(402, 'no money', { headers: { 'x-pot': '1' } }), 402, 'no money', ['x-pot']],
  ['ctx.assert', (ctx) => ctx.assert(false, 409, 'no tea'), 409, 'no tea'],
  ['ctx.res, with ctx.respond = false', (ctx) => direct(ctx), 202, 'tea', ['x-pot']],
  ['ctx.res, and Koa finds it done', (ctx) => void ctx.res.writeHead(202, { 'x-pot': '1' }).end('tea'), 202, 'tea', ['x-pot']],
  ['ctx.res, of which Koa ends what was begun', (ctx) => void ctx.res.writeHead(202).write('a pot '), 202, 'a pot Accepted'],
  ['flushHeaders(), and then a body', (ctx) => flushed(ctx), 200, 'tea', ['x-pot']],
]

function headed(ctx: Context): void {
  ctx.append('link', ['</a>', '</b>'])
  ctx.etag = 'v1'
  ctx.lastModified = new Date(0)
  ctx.vary('accept')
  ctx.attachment('tea.txt')
  ctx.body = 'tea'
}

function untyped(ctx: Context, content: unknown = Buffer.from('tea')): void {
  ctx.body = content
  ctx.remove('content-type')
}

async function direct(ctx: Context): Promise<void> {
  ctx.respond = false
  ctx.res.writeHead(202, { 'x-pot': '1' })
  setImmediate(() => ctx.res.end('tea'))
}

function flushed(ctx: Context): void {
  ctx.status = 200
  ctx.set('x-pot', '1')
  ctx.flushHeaders()
  ctx.body = 'tea'
}

const start = (answer: Answer, { before, behind }: { before?: Middleware; behind?: Middleware } = {}, onceOptions = {}) =>
  startKoa(
    database,
    (app, { protect, ran }) => {
      if (before) app.use(before)
      app.use(protect())
      if (behind) app.use(behind)
      app.use(async (ctx) => {
        if (ctx.method !== 'POST') return
        ran()
        await answer(ctx)
      })
    },
    onceOptions,
  )

test.each(ways)('%s', async (_name, answer, status, text, names = []) => {
  const service = await start(answer)
  const first = await replaysAlike(service, {}, names)
  expect([first.status, first.body.toString()]).toEqual([status, text])
  for (const name of names) expect([name, first.lines(name).length > 0]).toEqual([name, true])
})

/** As most applications have one. */
const handlesErrors: Middleware = async (ctx, next) => {
  try {
    await next()
  } catch (error) {
    const { status = 500, message } = error as { status?: number; message: string }
    ctx.status = status
    ctx.body = { error: message }
  }
}

describe.each(['before', 'behind'] as const)('an error handler that is mounted %s', (where) => {
  test('its 4xx is the answer', async () => {
    const service = await start((ctx) => ctx.throw(402, 'no money'), { [where]: handlesErrors })
    const first = await replaysAlike(service)
    expect([first.status, first.body.toString()]).toEqual([402, '{"error":"no money"}'])
  })

  test('its 5xx reaches the client, and a retry runs again', async () => {
    const service = await start(
      (ctx) => {
        if (service.runs() === 1) throw new Error('out of tea')
        ctx.body = 'tea'
      },
      { [where]: handlesErrors },
    )
    const failed = await service.send()
    expect([failed.status, failed.body.toString()]).toEqual([500, '{"error":"out of tea"}'])
    expect((await service.send()).body.toString()).toBe('tea')
  })
})

test.each<[string, Answer]>([
  [
    'throws',
    () => {
      throw new Error('out of tea')
    },
  ],
  ['throws what is no error', () => Promise.reject('out of tea')],
  ['calls ctx.throw(500)', (ctx) => ctx.throw(500, 'out of tea')],
  ['has a body that is no JSON', (ctx) => Object.assign(ctx, { body: { amount: 1n } })],
  ['has a stream that fails', (ctx) => Object.assign(ctx, { body: failing(0) })],
  ['has a stream that fails half-way', (ctx) => Object.assign(ctx, { body: failing(3) })],
])("a handler that %s gets Koa's 500, the application is told, and a retry runs again", async (_name, fail) => {
  const service = await start((ctx) => (service.runs() === 1 ? fail(ctx) : body('tea')(ctx)))
  const failed = await service.send()
  expect([failed.status, failed.body.toString()]).toEqual([500, 'Internal Server Error'])
  expect(service.errors.length).toBe(1)
  expect((await service.send()).body.toString()).toBe('tea')
})

test('a stream that fails after so much that it flows: the client is cut off, the application is told, and a retry runs again', async () => {
  const service = await start(
    (ctx) => Object.assign(ctx, { body: service.runs() === 1 ? failing(100) : 'tea' }),
    {},
    { maxAnswerBytes: 1_000 },
  )
  await expect(service.send()).rejects.toThrow()
  await waitUntil('the key is free', async () => (await service.keyState()) === 'pending')
  expect(service.errors).toMatchObject([{ message: 'the disk is gone' }])
  expect((await service.send()).body.toString()).toBe('tea')
})

function failing(pieces: number): Readable {
  let left = pieces
  return new Readable({
    read() {
      left -= 1
      if (left < 0) this.destroy(new Error('the disk is gone'))
      else this.push('x'.repeat(100))
    },
  })
}

test('an answer over the cap flows, and comes to its end', async () => {
  const service = await start(
    (ctx) => Object.assign(ctx, { body: Readable.from(Array(50).fill('x'.repeat(100))) }),
    {},
    { maxAnswerBytes: 1_000 },
  )
  expect((await service.send()).body.length).toBe(5_000)
  expect([(await service.send()).status, service.runs()]).toEqual([410, 1])
})

test.each<[string, unknown]>([
  ['a text', 'x'.repeat(5_000)],
  ['a stream of one piece', 'stream'],
])('%s over the cap reaches its first caller', async (_name, content) => {
  const large = 'x'.repeat(5_000)
  const service = await start(
    (ctx) => Object.assign(ctx, { body: content === 'stream' ? Readable.from([large]) : content }),
    {},
    { maxAnswerBytes: 1_000 },
  )
  expect((await service.send()).body.toString()).toBe(large)
  expect([(await service.send()).status, service.runs()]).toEqual([410, 1])
})

test('what is in front of the layer and finds no answer gives one: it is stored', async () => {
  let pages = 0
  const service = await start(() => {}, {
    async before(ctx, next) {
      await next()
      if (ctx.status !== 404 || ctx.body) return
      pages += 1
      ctx.status = 404
      ctx.body = 'no such page'
    },
  })
  const first = await replaysAlike(service)
  expect([first.status, first.body.toString(), pages]).toEqual([404, 'no such page', 1])
})

test('what is in front of the layer and makes something of an answer does so at each replay', async () => {
  const service = await start(body({ item: 'tea' }, 201), {
    async before(ctx, next) {
      await next()
      ctx.body = `[${Buffer.isBuffer(ctx.body) ? ctx.body.toString() : JSON.stringify(ctx.body)}]`
    },
  })
  const first = await replaysAlike(service)
  expect([first.status, first.body.toString()]).toEqual([201, '[{"item":"tea"}]'])
  const refused = await service.send({ body: '{}' })
  expect([refused.status, refused.body.toString()]).toEqual([422, expect.stringMatching(/^\[\{.*\}\]$/)])
})

test.each<[string, Answer, string]>([
  ['an object', body({ item: 'tea' }), '{"data":{"item":"tea"}}'],
  ['a list', body(['tea']), '{"data":["tea"]}'],
  ['an object with a date', body({ at: new Date(0) }), '{"data":{"at":"1970-01-01T00:00:00.000Z"}}'],
  ['a text', body('tea'), '{"data":"tea"}'],
  ['JSON as a text', (ctx) => Object.assign(ctx, { type: 'json', body: '{"item":"tea"}' }), '{"data":{"item":"tea"}}'],
  [
    'JSON as a text, with spaces',
    (ctx) => Object.assign(ctx, { type: 'json', body: '{ "item": "tea" }' }),
    '{"data":"{ \\"item\\": \\"tea\\" }"}',
  ],
  ['JSON as bytes', (ctx) => Object.assign(ctx, { type: 'json', body: Buffer.from('{"item":"tea"}') }), '{"data":{"item":"tea"}}'],
  ['a stream of text', (ctx) => Object.assign(ctx, { type: 'text', body: Readable.from(['te', 'a']) }), '{"data":"tea"}'],
  ['bytes', (ctx) => Object.assign(ctx, { body: Buffer.from('tea') }), '{"data":{"type":"Buffer","data":[116,101,97]}}'],
  ['no body', body(null), '{"data":null}'],
])('an envelope in front makes the same bytes of the first answer and of its replays: %s', async (_name, answer, expected) => {
  const service = await start(answer, {
    async before(ctx, next) {
      await next()
      const { body: data } = ctx
      ctx.status = 200
      ctx.body = { data: data ?? null }
    },
  })
  const first = await replaysAlike(service)
  expect(first.body.toString()).toBe(expected)
})

test('a lease that was lost when the answer is stored: what is in front of the layer sees the 503, and nothing of the answer', async () => {
  const seen: unknown[] = []
  const gate = new Gate()
  const service = await start(
    async (ctx) => {
      ctx.set('x-late', '1')
      if (service.runs() === 1) await gate.opened
      ctx.body = Readable.from([`run ${service.runs()}`])
    },
    {
      async before(ctx, next) {
        await next()
        seen.push(ctx.status)
        ctx.set('x-front', '1')
      },
    },
  )
  const first = service.send()
  await waitUntil('the handler runs', () => service.runs() === 1)
  await database.pool.query("update oncekey.keys set locked_until = locked_until - interval '1 hour' where tenant = $1", [service.tenant])
  expect((await service.send()).body.toString()).toBe('run 2')
  gate.open()
  const { status, lines } = await first
  expect([status, lines('x-late'), lines('x-front'), seen]).toEqual([503, [], ['1'], [200, 503]])
})

test('a handler that runs too long: its client gets a 503, and what it answers later is dropped', async () => {
  const clock = manualClock()
  const gate = new Gate()
  const done = new Gate()
  const service = await start(
    async (ctx) => {
      await gate.opened
      ctx.status = 201
      ctx.body = Readable.from(['late'])
    },
    { before: (_ctx, next) => next().finally(done.open) },
    { clock, maxRun: '1m' },
  )
  const client = await rawConnection(service.url)
  client.write(rawRequest({ path: '/work', tenant: service.tenant, key: '"key-1"', body: '{}' }))
  await waitUntil('the handler runs', () => service.runs() === 1)
  clock.advance(60_000)
  await waitUntil('the client has its answer', () => client.received().includes('"interrupted"'))
  gate.open()
  await done.opened
  client.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')
  await waitUntil('the connection goes on', () => client.received().endsWith('Not Found'))
  expect(client.received()).not.toMatch(/late/)
  client.destroy()
})

test('a client that goes: the application is told of the broken connection, and the work goes on', async () => {
  const gate = new Gate()
  let closes = 0
  const service = await start(async (ctx) => {
    ctx.res.on('close', () => {
      closes += 1
    })
    await gate.opened
    ctx.body = 'tea'
  })
  const client = await rawConnection(service.url)
  client.write(rawRequest({ path: '/work', tenant: service.tenant, key: '"key-1"', body: '{}' }))
  await waitUntil('the handler runs', () => service.runs() === 1)
  client.resetAndDestroy()
  await waitUntil('the application is told', () => service.errors.length === 1)
  expect(service.errors).toMatchObject([{ code: 'ECONNRESET' }])
  expect(closes).toBe(0)
  gate.open()
  await waitUntil('the response is closed', () => closes === 1)
  await waitUntil('the answer is stored', async () => (await service.keyState()) === 'complete')
  const again = await service.send({ body: '{}' })
  expect([again.status, again.body.toString(), isReplay(again)]).toEqual([200, 'tea', true])
})
