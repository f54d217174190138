// The same listeners on node:http2, whose requests and responses only look like those of node:http.
import { type ClientHttp2Session, connect, constants, createServer, type Http2ServerRequest, type Http2ServerResponse } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { buffer, text } from 'node:stream/consumers'
import Koa from 'koa'
import { describe, expect, onTestFinished, test } from 'vitest'
import { idempotency as protectKoa } from '../../src/adapters/koa.js'
import { idempotency as protectNode } from '../../src/adapters/node.js'
import { createOnce, type OnceOptions } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { Gate } from '../../src/testing/adapter-cases/adapter-case.js'
import { manualClock } from '../../src/testing/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { useQuietProcess } from './node-service.js'

const database = useDatabase()
useQuietProcess()

type Handler = (request: Http2ServerRequest, response: Http2ServerResponse) => unknown
type Listener = (request: Http2ServerRequest, response: Http2ServerResponse) => unknown

const stacks: [
  name: string,
  stack: (handler: Handler, once: ReturnType<typeof createOnce>, options: { maxBodyBytes?: number }) => Listener,
][] = [
  ['node:http2', (handler, once, options) => protectNode(once, { tenant: 'single', afterFailure: 'rerun', onError, ...options })(handler)],
  [
    'Koa 3 on node:http2',
    (handler, once, options) => {
      const app = new Koa()
      app.silent = true
      app.use(protectKoa(once, { tenant: 'single', afterFailure: 'rerun', ...options }))
      app.use(async (ctx) => {
        ctx.respond = false
        ctx.status = 200
        await handler(ctx.req as never, ctx.res as never)
      })
      return app.callback() as unknown as Listener
    },
  ],
]

const onError = (_error: unknown, _request: unknown, response: { writeHead(status: number): { end(): void } }) =>
  void response.writeHead(500).end()

interface Answered {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: string
}

async function start(
  stack: (typeof stacks)[number][1],
  handler: (request: Http2ServerRequest, response: Http2ServerResponse, run: number) => unknown,
  { maxBodyBytes, ...options }: Partial<OnceOptions<never>> & { maxBodyBytes?: number } = {},
) {
  const store = postgresStore(fromPg(database.pool))
  const once = createOnce({ store, lease: '10m', ...options } as OnceOptions<never>)
  const path = `/${crypto.randomUUID()}`
  let runs = 0
  const listener = stack(
    (request, response) => {
      runs += 1
      return handler(request, response, runs)
    },
    once as never,
    maxBodyBytes === undefined ? {} : { maxBodyBytes },
  )
  const server = createServer(listener as never)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const session: ClientHttp2Session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  session.on('error', () => {})
  onTestFinished(() => {
    session.destroy()
    server.close()
  })
  const open = () =>
    session
      .request({ ':method': 'POST', ':path': path, 'idempotency-key': '"key-1"', 'content-type': 'application/json' })
      .on('error', () => {})
  const answerTo = (stream: ReturnType<typeof open>) =>
    new Promise<Answered>((resolve, reject) => {
      stream.once('response', async ({ ':status': status, ...headers }) => {
        const pieces = await buffer(stream).catch(reject)
        // A stream that is reset may end as if it were whole; its code tells.
        if (stream.rstCode !== constants.NGHTTP2_NO_ERROR) reject(new Error('reset'))
        else resolve({ status: status as number, headers: headers as Answered['headers'], body: pieces?.toString() ?? '' })
      })
      stream.once('error', reject).once('close', () => reject(new Error('closed')))
    })
  return {
    runs: () => runs,
    open,
    answerTo,
    session,
    send(body: string | null = '{"item":"tea"}') {
      const stream = open()
      // Node adds no length to it: it ends with a frame.
      if (body === null) stream.end()
      else stream.end(body)
      return answerTo(stream)
    },
    keyState: async () => (await store.keyRead({ tenant: 'single', scope: `POST ${path}`, key: 'key-1' }))?.state,
  }
}

const replayed = ({ headers }: Answered) => headers['idempotent-replayed'] === 'true'

describe.each(stacks)('%s', (_, stack) => {
  test('runs once, and replays status, headers and body', async () => {
    const service = await start(stack, async (request, response, run) => {
      response.writeHead(201, { location: '/orders/1', 'x-pot': ['1', '2'] })
      response.end(`${run} ${await text(request)}`)
    })
    const [first, again] = [await service.send(), await service.send()]
    expect([first.status, first.headers.location, first.headers['x-pot'], first.body]).toEqual([
      201,
      '/orders/1',
      '1, 2',
      '1 {"item":"tea"}',
    ])
    expect([again.status, again.headers.location, again.headers['x-pot'], again.body]).toEqual([
      201,
      '/orders/1',
      '1, 2',
      '1 {"item":"tea"}',
    ])
    expect([replayed(first), replayed(again), service.runs()]).toEqual([false, true, 1])
  })

  test('sees another body, although no header announces one, and none', async () => {
    const service = await start(stack, (_request, response) => response.end('tea'))
    await service.send()
    expect((await service.send('{"item":"mud"}')).status).toBe(422)
    expect((await service.send(null)).status).toBe(422)
    expect([(await service.send()).status, service.runs()]).toEqual([200, 1])
  })

  test('a request without a body', async () => {
    const service = await start(stack, async (request, response) => response.end(`(${await text(request as Readable)})`))
    expect((await service.send(null)).body).toBe('()')
    expect(replayed(await service.send(null))).toBe(true)
  })

  test('a large body in both directions', async () => {
    const large = 'x'.repeat(800_000)
    const service = await start(stack, async (request, response) => Readable.from([await text(request)]).pipe(response as never))
    expect((await service.send(large)).body === large).toBe(true)
    expect((await service.send(large)).body === large).toBe(true)
    expect(service.runs()).toBe(1)
  })

  test('an answer over the cap flows, and is not kept', async () => {
    const service = await start(stack, (_request, response) => Readable.from(Array(50).fill('x'.repeat(100))).pipe(response as never), {
      maxAnswerBytes: 1_000,
    })
    expect((await service.send()).body.length).toBe(5_000)
    expect([(await service.send()).status, service.runs()]).toEqual([410, 1])
  })

  test('a body over the limit', async () => {
    const service = await start(stack, (_request, response) => response.end(), { maxBodyBytes: 1_000 })
    expect([(await service.send('x'.repeat(100_000))).status, service.runs()]).toEqual([413, 0])
    expect((await service.send('tea')).status).toBe(200)
  })

  test.each(['reset', 'session'])(
    'a client that breaks off in the middle of its body (%s): nothing runs, and no key is used',
    async (how) => {
      const service = await start(stack, (_request, response) => response.end())
      const stream = service.open()
      stream.write('{"item":')
      // By its answer the first half has arrived.
      const elsewhere = service.session.request({ ':method': 'GET', ':path': '/' })
      elsewhere.end()
      await service.answerTo(elsewhere as never)
      // Not with close(): Node's client ends the body first, and so says that it is whole.
      if (how === 'reset') stream.destroy(new Error('changed my mind'))
      else service.session.destroy()
      await waitUntil('it is closed', () => stream.destroyed)
      const probe = await start(stack, (_request, response) => response.end())
      await probe.send()
      expect([service.runs(), await service.keyState()]).toEqual([1, undefined])
    },
  )

  test.each(['before it has read its body', 'after that'])(
    'a client that goes while the handler runs, %s: the work is done',
    async (when) => {
      const gate = new Gate()
      const service = await start(stack, async (request, response) => {
        if (when === 'before it has read its body') await gate.opened
        const body = await text(request)
        await gate.opened
        response.end(body)
      })
      const stream = service.open()
      stream.end('{"item":"tea"}')
      await waitUntil('the handler runs', () => service.runs() === 1)
      stream.close(constants.NGHTTP2_CANCEL)
      await waitUntil('it is closed', () => stream.destroyed)
      gate.open()
      await waitUntil('the answer is stored', async () => (await service.keyState()) === 'complete')
      const again = await service.send()
      expect([again.body, replayed(again), service.runs()]).toEqual(['{"item":"tea"}', true, 1])
    },
  )

  test('a client that goes in the middle of an answer over the cap: the handler comes to its end', async () => {
    const gate = new Gate()
    const service = await start(
      stack,
      (_request, response) => {
        Readable.from(
          (async function* () {
            for (let piece = 0; piece < 20; piece += 1) yield 'x'.repeat(1_000)
            await gate.opened
            for (let piece = 0; piece < 1_000; piece += 1) yield 'x'.repeat(1_000)
          })(),
        ).pipe(response as never)
      },
      { maxAnswerBytes: 1_000 },
    )
    const stream = service.open()
    stream.end('{"item":"tea"}')
    await new Promise((resolve) => stream.once('data', resolve))
    stream.close(constants.NGHTTP2_CANCEL)
    await waitUntil('it is closed', () => stream.destroyed)
    gate.open()
    await waitUntil('the answer is stored', async () => (await service.keyState()) === 'complete')
    expect((await service.send()).status).toBe(410)
  })

  test('a handler that throws: 500, and a retry runs again', async () => {
    const service = await start(stack, (_request, response, run) => {
      if (run === 1) throw new Error('out of tea')
      response.end('tea')
    })
    expect((await service.send()).status).toBe(500)
    expect((await service.send()).body).toBe('tea')
  })

  test('a handler that destroys its response: the stream is reset, and a retry runs again', async () => {
    const service = await start(stack, (_request, response, run) =>
      run === 1 ? response.stream.destroyed || response.destroy() : response.end('tea'),
    )
    await expect(service.send()).rejects.toThrow()
    await waitUntil('the key is free', async () => (await service.keyState()) === 'pending')
    expect((await service.send()).body).toBe('tea')
  })

  test('a handler that runs too long: its client gets a 503, and what it answers later is dropped', async () => {
    const clock = manualClock()
    const gate = new Gate()
    const done = new Gate()
    const service = await start(
      stack,
      async (_request, response, run) => {
        if (run > 1) return response.end('in time')
        await gate.opened
        response.writeHead(201, { 'x-late': '1' })
        response.write('late')
        response.end('later')
        done.open()
      },
      { clock, maxRun: '1m' },
    )
    const first = service.send()
    await waitUntil('the handler runs', () => service.runs() === 1)
    clock.advance(60_000)
    const { status, headers, body } = await first
    expect([status, headers['x-late'], JSON.parse(body).code]).toEqual([503, undefined, 'interrupted'])
    gate.open()
    await done.opened
    expect((await service.send()).body).toBe('in time')
  })

  test('a handler that runs too long while its answer flows: the stream is reset, so that nobody takes it for the whole', async () => {
    const clock = manualClock()
    const service = await start(
      stack,
      (_request, response) => {
        for (let piece = 0; piece < 20; piece += 1) response.write('x'.repeat(1_000))
      },
      { clock, maxRun: '1m', maxAnswerBytes: 1_000 },
    )
    const stream = service.open()
    stream.end('{"item":"tea"}')
    const whole = service.answerTo(stream)
    await new Promise((resolve) => stream.once('response', resolve))
    clock.advance(60_000)
    await expect(whole).rejects.toThrow()
    expect(stream.rstCode).toBe(constants.NGHTTP2_INTERNAL_ERROR)
  })
})
