import type { Context } from 'hono'
import { setCookie } from 'hono/cookie'
import { HTTPException } from 'hono/http-exception'
import { stream, streamSSE, streamText } from 'hono/streaming'
import { describe, expect, test, vi } from 'vitest'
import { useDatabase } from '../support/postgres/database.js'
import { withoutMark } from './fetch-bench.js'
import { type LayerOptions, openHandler } from './hono-bench.js'

const database = useDatabase()
type Handler = (c: Context) => Response | Promise<Response>

const open = (handler: Handler, options?: LayerOptions) => openHandler(database, handler, options)
const bytes = Uint8Array.of(0, 255, 128, 10)
const streamOf = (...pieces: Uint8Array[]) => ReadableStream.from(pieces) as ReadableStream

describe('sends what it would send without the layer, and replays the same', () => {
  test.each<[string, Handler]>([
    ['c.json()', (c) => c.json({ ok: true }, 201)],
    ['c.text()', (c) => c.text('hello')],
    ['c.html()', (c) => c.html('<p>hello</p>')],
    ['c.body() with an ArrayBuffer', (c) => c.body(bytes.buffer)],
    ['c.body() with a stream', (c) => c.body(streamOf(bytes, bytes), 200, { 'content-type': 'image/png' })],
    ['c.body(null)', (c) => c.body(null)],
    ['c.body(null, 204)', (c) => c.body(null, 204)],
    ['c.body("")', (c) => c.body('', 200, { 'content-type': 'text/plain' })],
    ['c.redirect()', (c) => c.redirect('/orders/1', 303)],
    ['c.notFound()', (c) => c.notFound() as Response],
    ['c.header() and c.status()', (c) => headed(c).json({ ok: true })],
    ['new Response()', () => new Response(bytes, { status: 202, headers: { 'content-type': 'image/png', etag: '"v1"' } })],
    ['new Response() of a text', () => new Response('plain')],
    ['Response.json()', () => Response.json({ ok: true }, { status: 201 })],
    ['Response.redirect()', () => Response.redirect('http://localhost/orders/1', 303)],
    ['stream()', (c) => stream(c, async (to) => void (await (await to.write('one ')).write('two')))],
    ['streamText()', (c) => streamText(c, async (to) => void (await (await to.writeln('one')).write('two')))],
    ['streamSSE()', (c) => streamSSE(c, (to) => to.writeSSE({ data: 'one', event: 'step', id: '1' }))],
    ['an HTTPException', () => Promise.reject(new HTTPException(402, { message: 'card declined' }))],
    [
      'an HTTPException with a response',
      () => Promise.reject(new HTTPException(409, { res: Response.json({ code: 'sold_out' }, { status: 409 }) })),
    ],
  ])('%s', async (_, handler) => {
    const { send, sendTwice, runs } = await open(handler)
    const unprotected = await send({ key: null })
    const first = await sendTwice()
    expect(withoutMark(first)).toEqual(withoutMark(unprotected))
    expect(runs()).toBe(2)
  })
})

test.each<[string, Handler]>([
  ['a text', () => new Response('plain', { headers: { 'x-custom': 'kept' } })],
  ['bytes', () => new Response(bytes, { headers: { 'x-custom': 'kept' } })],
  ['a stream', () => new Response(streamOf(bytes), { headers: { 'x-custom': 'kept' } })],
])('a Response without a type, with %s, is replayed as the server sent it', async (_, handler) => {
  const { sendTwice } = await open(handler)
  expect((await sendTwice()).headers['x-custom']).toBe('kept')
})

function headed(c: Context): Context {
  c.status(201)
  c.header('location', '/orders/1')
  c.header('link', '</a>; rel="a"')
  c.header('link', '</b>; rel="b"', { append: true })
  return c
}

test('a streamed answer has a length and no other framing, once it is whole', async () => {
  const { send } = await open((c) => streamText(c, async (to) => void (await to.write('hello'))))
  expect((await send()).framing).toMatchObject({ 'content-length': '5' })
  expect((await send()).framing).not.toHaveProperty('transfer-encoding')
})

test('cookies reach the first client, and no other one', async () => {
  const { send, runs } = await open((c) => {
    setCookie(c, 'session', 'secret', { path: '/' })
    setCookie(c, 'theme', 'dark', { path: '/' })
    return c.text('signed in')
  })
  expect((await send()).headers['set-cookie']).toEqual(['session=secret; Path=/', 'theme=dark; Path=/'])
  const again = await send()
  expect([again.text, again.replayed, again.headers['set-cookie'], runs()]).toEqual(['signed in', true, undefined, 1])
})

test('what app.onError makes of an error is what the client gets; a 5xx of it is no answer to keep', async () => {
  const { app, send, runs, happened } = await open(() => {
    throw new Error('no luck')
  })
  app.onError((error, c) => c.json({ error: error.message }, 500))
  for (const run of [1, 2]) {
    const failed = await send()
    expect([failed.status, failed.text, failed.replayed, runs()]).toEqual([500, '{"error":"no luck"}', false, run])
  }
  expect(happened()).toEqual(['executing', 'released', 'executing', 'released'])
})

test('an answer below 500 that app.onError makes of an error is kept', async () => {
  const { app, sendTwice, runs } = await open(() => {
    throw new Error('no luck')
  })
  app.onError((error, c) => c.json({ error: error.message }, 422))
  expect((await sendTwice()).status).toBe(422)
  expect(runs()).toBe(1)
})

test('store: what app.onError makes of an error is replayed as it is', async () => {
  const { app, sendTwice, runs } = await open(
    () => {
      throw new Error('no luck')
    },
    { afterFailure: 'store' },
  )
  app.onError((error, c) => c.json({ error: error.message }, 500))
  expect((await sendTwice()).text).toBe('{"error":"no luck"}')
  expect(runs()).toBe(1)
})

test('something thrown that is no Error fails the request, and a retry runs again', async () => {
  const { send, runs } = await open(() => {
    throw 'a text'
  })
  expect([(await send()).status, (await send()).status, runs()]).toEqual([500, 500, 2])
})

test('a handler that forgets to return fails, and is not taken for an empty answer', async () => {
  const errors = vi.spyOn(console, 'error').mockImplementation(() => {})
  const { send, runs, keyState, happened } = await open(() => undefined as unknown as Response)
  expect([(await send()).status, await keyState(), (await send()).status, runs()]).toEqual([500, 'pending', 500, 2])
  expect(happened().slice(0, 2)).toEqual(['executing', 'released'])
  expect(errors.mock.calls[0]?.[0]).toMatchObject({ code: 'answer_invalid' })
  errors.mockRestore()
})

test('a path without a handler is answered 404, and that is kept as any 4xx', async () => {
  const { send, app } = await open((c) => c.text('never'))
  app.notFound((c) => c.text('nothing here', 404))
  const first = await send({ path: '/typo' })
  const again = await send({ path: '/typo' })
  expect([first.status, first.replayed, again.status, again.text, again.replayed]).toEqual([404, false, 404, 'nothing here', true])
})
