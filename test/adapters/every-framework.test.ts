// What holds in every framework on Node alike.
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type INestApplication, Req, Res } from '@nestjs/common'
import express from 'express'
import express4 from 'express-4'
import Fastify from 'fastify'
import Koa from 'koa'
import { describe, expect, onTestFinished, test } from 'vitest'
import { idempotency as protectExpress } from '../../src/adapters/express.js'
import { idempotency as protectFastify } from '../../src/adapters/fastify.js'
import { idempotency as protectKoa } from '../../src/adapters/koa.js'
import { IdempotencyModule } from '../../src/adapters/nest.js'
import { idempotency as protectNode } from '../../src/adapters/node.js'
import { createOnce, type Once } from '../../src/index.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { Gate } from '../../src/testing/adapter-cases/adapter-case.js'
import { rawConnection } from '../../src/testing/adapter-cases/client.js'
import { waitUntil } from '../support/wait-until.js'
import { startNest, workController } from './nest-app.js'

const options = { tenant: 'single', afterFailure: 'rerun' } as const

/** Each answers `POST /work` with "Guten Tag"; in front of the layer and in the handler the language is set to that of the client. */
type Start = (once: Once) => Promise<{ readonly url: string; readonly server: Server; close(): Promise<unknown> }>

const language = (request: { headers: Record<string, unknown> }) => String(request.headers['accept-language'])

async function listening(listener: RequestListener) {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const close = () =>
    new Promise((resolve) => {
      server.close(resolve)
      server.closeIdleConnections()
    })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server, close }
}

const onExpress =
  (framework: typeof express): Start =>
  (once) => {
    const app = framework()
    app.use((request, response, next) => {
      response.set('content-language', language(request))
      next()
    })
    app.use(protectExpress(once, options))
    app.post('/work', (request, response) => void response.set('Content-Language', language(request)).send('Guten Tag'))
    return listening(app)
  }

const onNest =
  (platform: 'Express' | 'Fastify'): Start =>
  async (once) => {
    const work = (request: never, response: { header(name: string, value: string): { send(body: string): void } }) =>
      response.header('Content-Language', language(request)).send('Guten Tag')
    let app: INestApplication | undefined
    const { url } = await startNest(platform, {
      options: { forceCloseConnections: false },
      imports: [IdempotencyModule.forRoot(once, options)],
      controllers: [workController(work as never, { parameters: [Req(), Res()] })],
      main(building) {
        app = building
        building.use((request: never, response: { setHeader(name: string, value: string): void }, next: () => void) => {
          response.setHeader('content-language', language(request))
          next()
        })
      },
    })
    const nest = app as INestApplication
    return { url, server: nest.getHttpServer(), close: () => nest.close() }
  }

const frameworks: [name: string, start: Start][] = [
  [
    'node:http',
    (once) => {
      const listener = protectNode(
        once,
        options,
      )((request, response) => response.writeHead(200, { 'Content-Language': language(request) }).end('Guten Tag'))
      return listening((request, response) => listener(request, response.setHeader('content-language', language(request))))
    },
  ],
  ['Express 5', onExpress(express)],
  ['Express 4', onExpress(express4)],
  [
    'Koa 3',
    (once) => {
      const app = new Koa()
      app.use((ctx, next) => {
        ctx.set('content-language', language(ctx.req))
        return next()
      })
      app.use(protectKoa(once, options))
      app.use((ctx) => {
        ctx.set('Content-Language', language(ctx.req))
        ctx.body = 'Guten Tag'
      })
      return listening(app.callback())
    },
  ],
  [
    'Fastify 5',
    async (once) => {
      const app = Fastify()
      app.addHook('onRequest', async (request, reply) => void reply.header('content-language', language(request)))
      await app.register(protectFastify(once, options))
      app.post('/work', async (request, reply) => reply.header('Content-Language', language(request)).send('Guten Tag'))
      await app.listen({ port: 0, host: '127.0.0.1' })
      return { url: `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`, server: app.server, close: () => app.close() }
    },
  ],
  ['Nest on Express', onNest('Express')],
  ['Nest on Fastify', onNest('Fastify')],
]

const send = (url: string, key: string, headers: Record<string, string> = {}) =>
  fetch(`${url}/work`, { method: 'POST', headers: { 'idempotency-key': key, 'accept-language': 'de', ...headers } })

describe.each(frameworks)('%s', (name, start) => {
  test('ten shutdowns under load: no client is without an answer', async () => {
    const clients = 20
    for (let shutdown = 0; shutdown < 10; shutdown += 1) {
      const [storing, go] = [new Gate(), new Gate()]
      const store = memoryStore()
      let finishing = 0
      const keyFinish: typeof store.keyFinish = async (finish, limit) => {
        finishing += 1
        if (finishing === clients) storing.open()
        await go.opened
        return store.keyFinish(finish, limit)
      }
      const { url, server, close } = await start(createOnce({ store: { ...store, keyFinish } as typeof store }))
      const answers = Promise.all(Array.from({ length: clients }, async (_, client) => (await send(url, `"${client}"`)).text()))
      await storing.opened
      const closed = close()
      go.open()
      expect(await answers).toEqual(Array(clients).fill('Guten Tag'))
      server.closeAllConnections()
      await closed
    }
  })

  // Nest's Fastify hands on all headers at once, those in front included.
  test.skipIf(name === 'Nest on Fastify')('a header that the handler sets to what it is already is part of its answer', async () => {
    const { url, server, close } = await start(createOnce({ store: memoryStore() }))
    onTestFinished(async () => {
      server.closeAllConnections()
      await close()
    })
    expect((await send(url, '"key-1"')).headers.get('content-language')).toBe('de')
    const replay = await send(url, '"key-1"', { 'accept-language': 'en' })
    expect([await replay.text(), replay.headers.get('idempotent-replayed')]).toEqual(['Guten Tag', 'true'])
    expect(replay.headers.get('content-language')).toBe('de')
  })
})

describe('a body that arrives in pieces of one byte', () => {
  const receiver = () =>
    protectNode(
      createOnce({ store: memoryStore() }),
      options,
    )((request, response) => {
      let [length, pieces] = [0, 0]
      request.on('data', (piece: Buffer) => {
        length += piece.length
        pieces += 1
      })
      request.on('end', () => response.end(`got ${length} in ${pieces}`))
    })

  /** The processor's time for it, with what its handler got. */
  async function upload(url: string, size: number, type: string): Promise<number> {
    const socket = await rawConnection(url)
    const head = `POST /work HTTP/1.1\r\nHost: a\r\nIdempotency-Key: "${size}"\r\nContent-Type: ${type}\r\nTransfer-Encoding: chunked\r\n\r\n`
    const some = Buffer.from('1\r\nx\r\n'.repeat(10_000))
    const before = process.cpuUsage()
    socket.write(`${head}1\r\n"\r\n`)
    for (let sent = 0; sent < size; sent += 10_000) {
      if (!socket.write(some)) await new Promise((resolve) => socket.once('drain', resolve))
    }
    socket.write('1\r\n"\r\n0\r\n\r\n')
    await waitUntil('it is answered', () => socket.received().includes(`got ${size + 2} in `))
    const { user, system } = process.cpuUsage(before)
    const pieces = Number(/ in (\d+)$/.exec(socket.received())?.[1])
    // Blocks of 16 KiB.
    expect(pieces).toBeLessThanOrEqual(size / 16_384 + 2)
    socket.destroy()
    return user + system
  }

  test.each<[string, string, () => Promise<{ url: string; close(): Promise<unknown> }>]>([
    ['node:http, JSON', 'application/json', () => listening(receiver())],
    ['node:http, hashed while it arrives', 'text/plain', () => listening(receiver())],
    [
      'Fastify, JSON',
      'application/json',
      async () => {
        const app = Fastify({ bodyLimit: 10_000_000 })
        await app.register(protectFastify(createOnce({ store: memoryStore() }), options))
        app.post('/work', async (request) => `got ${(request.body as string).length + 2} in 0`)
        await app.listen({ port: 0, host: '127.0.0.1' })
        return { url: `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`, close: () => app.close() }
      },
    ],
  ])('takes time by its length, and no more (%s)', async (_, type, startReceiver) => {
    const { url, close } = await startReceiver()
    await upload(url, 20_000, type)
    const [short, long] = [await upload(url, 100_000, type), await upload(url, 400_000, type)]
    // Four times as much. What is quadratic takes sixteen times as long.
    expect(long / short).toBeLessThan(9)
    await close()
  })
})
