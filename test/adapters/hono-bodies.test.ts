import { once } from 'node:events'
import { connect, createServer } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { Context, MiddlewareHandler } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { validator } from 'hono/validator'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { z } from 'zod'
import { field } from '../../src/adapters/hono.js'
import { useDatabase } from '../support/postgres/database.js'
import { type LayerOptions, openHandler, openHono } from './hono-bench.js'
import { honoListener } from './hono-listener.js'

const database = useDatabase()

const form = { headers: { 'content-type': 'application/x-www-form-urlencoded' } }
const readings: [string, (c: Context) => Promise<unknown>, { body: string; headers?: Record<string, string> }][] = [
  ['c.req.json()', (c) => c.req.json(), { body: '{"item":"tea"}' }],
  ['c.req.text()', (c) => c.req.text(), { body: 'tea' }],
  ['c.req.arrayBuffer()', (c) => c.req.arrayBuffer(), { body: 'tea' }],
  ['c.req.bytes()', (c) => c.req.bytes(), { body: 'tea' }],
  ['c.req.blob()', (c) => c.req.blob(), { body: 'tea' }],
  ['c.req.parseBody()', (c) => c.req.parseBody(), { body: 'item=tea', ...form }],
]

/** An application where somebody in front of the layer has to do with the body. */
function openBehind(before: MiddlewareHandler, options: LayerOptions = {}) {
  return openHono(database, (app, { protect, count }) => {
    app.use(before, protect(options))
    app.post('/orders', async (c) => c.text(`${count()}: ${await c.req.text()}`))
  })
}

function silentErrors() {
  const errors = vi.spyOn(console, 'error').mockImplementation(() => {})
  onTestFinished(() => errors.mockRestore())
  return () => errors.mock.calls.map(([error]) => (error as { code?: string }).code)
}

describe('the handler reads the body with', () => {
  test.each<[string, (c: Context) => Promise<unknown>, { body: string; headers?: Record<string, string> }]>([
    ...readings,
    ['c.req.formData()', async (c) => Object.fromEntries(await c.req.formData()), { body: 'item=tea', ...form }],
    ['c.req.raw.json()', (c) => c.req.raw.json(), { body: '{"item":"tea"}' }],
    ['c.req.raw.body', (c) => new Response(c.req.raw.body).text(), { body: 'tea' }],
    ['c.req.raw.clone()', async (c) => [await c.req.raw.clone().text(), await c.req.text()], { body: 'tea' }],
  ])('%s', async (_, read, sent) => {
    const { sendTwice, runs } = await openHandler(database, async (c) => c.text(await told(await read(c))))
    expect((await sendTwice(sent)).text).toMatch(/^tea$|"item":"tea"|\["tea","tea"\]/)
    expect(runs()).toBe(1)
  })
})

/** What a handler was given, as a text. */
async function told(body: unknown): Promise<string> {
  if (body instanceof Blob || body instanceof ArrayBuffer || body instanceof Uint8Array) return new Response(body as Blob).text()
  return typeof body === 'string' ? body : JSON.stringify(body)
}

describe('somebody in front of the layer has read the body with', () => {
  test.each(readings)('%s: it is compared all the same, and the handler finds it', async (_, read, sent) => {
    const { sendTwice, send } = await openBehind(async (c, next) => {
      await read(c)
      await next()
    })
    expect((await sendTwice(sent)).text).toBe(`1: ${sent.body}`)
    expect((await send({ ...sent, body: sent.body.replace('tea', 'gin') })).status).toBe(422)
    expect((await send({ ...sent, key: 'other' })).text).toBe(`2: ${sent.body}`)
  })

  test('c.req.text(), and does not wait for it', async () => {
    const { sendTwice, send } = await openBehind(async (c, next) => {
      void c.req.text()
      await next()
    })
    expect((await sendTwice()).text).toBe('1: {"item":"tea"}')
    expect((await send({ body: '{"item":"gin"}' })).status).toBe(422)
  })

  test('c.req.json(): integers past 2^53 are told apart still', async () => {
    const { send } = await openBehind(async (c, next) => {
      await c.req.json()
      await next()
    })
    expect((await send({ body: '{"id":9007199254740993}' })).status).toBe(200)
    expect((await send({ body: '{"id":9007199254740992}' })).status).toBe(422)
  })

  test.each<[string, (c: Context) => unknown]>([
    ['c.req.raw.text()', (c) => c.req.raw.text()],
    ['c.req.raw.body, and holds on to it', (c) => c.req.raw.body?.getReader()],
    ['c.req.formData()', (c) => c.req.formData()],
  ])('%s: the bytes are gone, and the layer says so before anything runs', async (_, read) => {
    const codes = silentErrors()
    const { send, runs, keyState } = await openBehind(async (c, next) => {
      await read(c)
      await next()
    })
    const sent = { body: 'item=tea', ...form }
    expect([(await send(sent)).status, runs(), await keyState()]).toEqual([500, 0, undefined])
    expect(codes()).toEqual(['raw_body_gone'])
  })

  test("c.req.formData(), and fingerprint is 'parsed': fields are compared", async () => {
    const { sendTwice, send } = await openHono(database, (app, { protect, count }) => {
      app.use(async (c, next) => {
        await c.req.formData()
        await next()
      })
      app.use(protect({ fingerprint: 'parsed' }))
      app.post('/orders', async (c) => c.text(`${count()}: ${(await c.req.formData()).get('item')}`))
    })
    expect((await sendTwice({ body: 'item=tea', ...form })).text).toBe('1: tea')
    expect((await send({ body: 'item=gin', ...form })).status).toBe(422)
    expect((await send({ body: 'item=tea&item=gin', ...form })).status).toBe(422)
  })

  test("c.req.raw.text(), and fingerprint is 'parsed': there is nothing to compare, and two bodies are not taken for one", async () => {
    const codes = silentErrors()
    const { send, runs } = await openBehind(
      async (c, next) => {
        await c.req.raw.text()
        await next()
      },
      { fingerprint: 'parsed' },
    )
    expect([(await send()).status, (await send({ body: '{"item":"gin"}' })).status, runs()]).toEqual([500, 500, 0])
    expect(codes()).toEqual(['raw_body_gone', 'raw_body_gone'])
  })
})

test('a request without a body that somebody has read runs', async () => {
  const { sendTwice } = await openBehind(async (c, next) => {
    await c.req.text()
    await next()
  })
  expect((await sendTwice({ body: null })).text).toBe('1: ')
})

test('over HTTP/2, where nothing announces a body, bodies are told apart', async () => {
  const { app, tenant } = await openHandler(database, async (c) => c.text(await c.req.text()))
  const server = createServer(honoListener(app.fetch) as never)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  onTestFinished(() => {
    client.destroy()
    server.close()
  })
  const post = async (body: string) => {
    const stream = client.request({ ':method': 'POST', ':path': '/orders', 'idempotency-key': 'k', 'x-tenant': tenant })
    stream.write(body.slice(0, 3))
    stream.end(body.slice(3))
    const [headers] = (await once(stream, 'response')) as [{ ':status': number }]
    return [headers[':status'], await text(stream)]
  }
  expect(await post('{"a":1}')).toEqual([200, '{"a":1}'])
  expect(await post('{"a":1}')).toEqual([200, '{"a":1}'])
  expect((await post('{"a":2}'))[0]).toBe(422)
})

test('a key in the body is read from the same copy that is compared', async () => {
  const { sendTwice, send } = await openHandler(database, async (c) => c.text(await c.req.text()), { key: field('ref') })
  expect((await sendTwice({ key: null, body: '{"ref":"r-1","item":"tea"}' })).text).toBe('{"ref":"r-1","item":"tea"}')
  expect((await send({ key: null, body: '{"ref":"r-1","item":"gin"}' })).status).toBe(422)
})

test('a key function may read the body through c.req', async () => {
  const { sendTwice, send } = await openHandler(database, async (c) => c.text(await c.req.text()), {
    key: async (c) => (await c.req.json()).ref,
  })
  expect((await sendTwice({ key: null, body: '{"ref":"r-1","item":"tea"}' })).text).toBe('{"ref":"r-1","item":"tea"}')
  expect((await send({ key: null, body: '{"ref":"r-1","item":"gin"}' })).status).toBe(422)
})

test('a body over the limit that somebody in front has read, announced or in chunks: 413, and nothing runs', async () => {
  const { send, runs } = await openBehind(
    async (c, next) => {
      await c.req.text()
      await next()
    },
    { maxBodyBytes: 10 },
  )
  for (const body of ['{"item":"tea"}', ['{"item"', ':"tea"}']]) expect((await send({ body })).status).toBe(413)
  expect(runs()).toBe(0)
})

describe('hono/body-limit', () => {
  const limit = bodyLimit({ maxSize: 20 })
  const long = '{"item":"a very long name"}'

  test.each<[string, Parameters<typeof openHono>[1]]>([
    ['in front of the layer', (app, { protect }) => app.use(limit, protect())],
    ['behind the layer', (app, { protect }) => app.use(protect(), limit)],
    ['between two layers', (app, { protect }) => app.use(protect(), limit, protect())],
  ])('%s: what it lets through runs once, announced or in chunks', async (_, mount) => {
    const { sendTwice, send } = await openHono(database, (app, parts) => {
      mount(app, parts)
      app.post('/orders', async (c) => c.text(`${parts.count()}: ${await c.req.text()}`))
    })
    expect((await sendTwice()).text).toBe('1: {"item":"tea"}')
    expect((await sendTwice({ key: 'chunks', body: ['{"item"', ':"tea"}'] })).text).toBe('2: {"item":"tea"}')
    expect((await send({ key: 'long', body: long })).status).toBe(413)
    expect((await send({ key: 'long-chunks', body: [long.slice(0, 9), long.slice(9)] })).status).toBe(413)
  })
})

describe('hono/validator', () => {
  const validate = validator('json', (value, c) => {
    const parsed = z.object({ quantity: z.number() }).safeParse(value)
    return parsed.success ? parsed.data : c.json({ issues: parsed.error.issues.length }, 400)
  })
  const wrong = { body: '{"quantity":"many"}' }
  const right = { body: '{"quantity":1}' }

  test('in front of the layer: what it refuses is no use of the key, and the corrected request runs', async () => {
    const { send, sendTwice, keyState } = await openHono(database, (app, { protect, count }) => {
      app.post('/orders', validate, protect(), (c) => c.json({ run: count(), quantity: c.req.valid('json').quantity }))
    })
    expect([(await send(wrong)).status, await keyState()]).toEqual([400, undefined])
    expect((await sendTwice(right)).text).toBe('{"run":1,"quantity":1}')
    // The schema has its word before the key: a wrong body is a 400 whatever the key was used for.
    expect((await send(wrong)).status).toBe(400)
  })

  test('behind the layer: what it refuses is an answer like any other', async () => {
    const { send, sendTwice } = await openHono(database, (app, { protect, count }) => {
      app.post('/orders', protect(), validate, (c) => c.json({ run: count(), quantity: c.req.valid('json').quantity }))
    })
    expect((await sendTwice(wrong)).status).toBe(400)
    expect((await send(right)).status).toBe(422)
    expect((await sendTwice({ ...right, key: 'new' })).text).toBe('{"run":1,"quantity":1}')
  })
})
