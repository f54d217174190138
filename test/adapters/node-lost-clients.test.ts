// Clients that go at every stage of a request: the handler runs once at most, and never without its body.
import { createServer, type RequestListener, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Readable, Writable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { bodyParser } from '@koa/bodyparser'
import express from 'express'
import express4 from 'express-4'
import Koa from 'koa'
import { describe, expect, test } from 'vitest'
import { idempotency as protectExpress } from '../../src/adapters/express.js'
import { idempotency as protectKoa } from '../../src/adapters/koa.js'
import { idempotency as protectNode } from '../../src/adapters/node.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { Gate } from '../../src/testing/adapter-cases/adapter-case.js'
import { rawConnection, rawRequest } from '../../src/testing/adapter-cases/client.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { isReplay, type Parts, startService, useQuietProcess } from './node-service.js'

const database = useDatabase()
useQuietProcess()

const body = '{"item":"tea"}'

const stages = ['in front of the layer', 'claiming', 'before the body is parsed', 'handling', 'storing'] as const
type Stage = (typeof stages)[number]

interface Application {
  /** Waits there if the test wants it to. */
  pass(stage: Stage): Promise<void>
  /** What the handler got, as JSON. */
  handle(received: string): Promise<string>
}

type Build = (parts: Parts, application: Application) => RequestListener

const onExpress = (framework: typeof express): Build => {
  return ({ once, options }, { pass, handle }) => {
    const app = framework()
    app.set('env', 'test')
    const wait = (stage: Stage) => (_request: express.Request, _response: express.Response, next: express.NextFunction) =>
      void pass(stage).then(() => next(), next)
    app.use(wait('in front of the layer'))
    app.use(protectExpress(once, options))
    app.use(wait('before the body is parsed'))
    app.use(framework.json())
    app.post('/work', (request, response, next) => {
      handle(JSON.stringify(request.body)).then((answer) => response.status(201).send(answer), next)
    })
    return app
  }
}

const applications: [name: string, build: Build][] = [
  ['Express 5, express.json() behind', onExpress(express)],
  ['Express 4, express.json() behind', onExpress(express4)],
  [
    'Koa 3, @koa/bodyparser behind',
    ({ once, options }, { pass, handle }) => {
      const app = new Koa()
      app.silent = true
      app.use((_ctx, next) => pass('in front of the layer').then(next))
      app.use(protectKoa(once, options))
      app.use((_ctx, next) => pass('before the body is parsed').then(next))
      app.use(bodyParser())
      app.use(async (ctx) => {
        ctx.status = 201
        ctx.body = await handle(JSON.stringify(ctx.request.body))
      })
      return app.callback()
    },
  ],
  [
    'node:http',
    ({ once, options }, { pass, handle }) => {
      const listener = protectNode(
        once,
        options,
      )(async (request, response) => {
        await pass('before the body is parsed')
        const answer = await handle((await buffer(request)).toString())
        response.writeHead(201).end(answer)
      })
      return (request, response) => void pass('in front of the layer').then(() => listener(request, response))
    },
  ],
]

async function start(build: Build, answer = 'done') {
  const received: string[] = []
  const sockets: Socket[] = []
  let stop: { stage: Stage; reached: Gate; gate: Gate } | undefined
  const pass = async (stage: Stage) => {
    if (stage !== stop?.stage) return
    const { reached, gate } = stop
    // Only the first: retries pass.
    stop = undefined
    reached.open()
    await gate.opened
  }
  const store = postgresStore(fromPg(database.pool))
  const service = await startService(
    database,
    (parts) => {
      const handle = async (what: string) => {
        parts.ran()
        received.push(what)
        await pass('handling')
        return answer
      }
      return createServer(build(parts, { pass, handle })).on('connection', (socket) => sockets.push(socket))
    },
    {
      maxAnswerBytes: 64 * 1024 * 1024,
      store: {
        ...store,
        keyClaim: (claim) => pass('claiming').then(() => store.keyClaim(claim)),
        keyFinish: (finish) => pass('storing').then(() => store.keyFinish(finish)),
      },
    },
  )
  return {
    ...service,
    received,
    /** Resolves when a request has come there, with the way on. */
    stopAt(stage: Stage): Promise<() => void> {
      const stopped = { stage, reached: new Gate(), gate: new Gate() }
      stop = stopped
      return stopped.reached.opened.then(() => stopped.gate.open)
    },
    firstSocket: () => sockets[0] as Socket,
    /** What a client gets that retries until it is not told to wait. */
    retry: () =>
      waitUntil('the key is free', async () => {
        const answered = await service.send()
        return answered.status === 409 ? undefined : answered
      }),
  }
}

const departures: [name: string, leave: (socket: Socket) => void, noticed: (socket: Socket) => boolean][] = [
  ['a reset', (socket) => socket.resetAndDestroy(), (socket) => socket.destroyed],
  ['an end', (socket) => socket.destroy(), (socket) => socket.destroyed || socket.readableEnded],
  ['half an end', (socket) => socket.end(), (socket) => socket.readableEnded],
]

describe.each(applications)('%s', (_, build) => {
  describe.each(departures)('%s', (_departure, leave, noticed) => {
    test.each(stages)('%s', async (stage) => {
      const service = await start(build)
      const stopped = service.stopAt(stage)
      const client = await rawConnection(service.url)
      client.write(rawRequest({ path: '/work', tenant: service.tenant, key: '"key-1"', body }))
      const goOn = await stopped
      leave(client)
      await waitUntil('the server has noticed', () => noticed(service.firstSocket()))
      goOn()
      // Who went before the layer began may not have begun anything.
      const begun = stage !== 'in front of the layer'
      if (begun) await waitUntil('the handler ran', () => service.received.length > 0)
      const answered = await service.retry()
      expect([answered.status, answered.body.toString()]).toEqual([201, 'done'])
      expect(service.received).toEqual([body])
      if (begun) expect(isReplay(answered)).toBe(true)
    })
  })

  test('a client that goes while its answer is sent: a retry replays it', async () => {
    const large = 'x'.repeat(8 * 1024 * 1024)
    const service = await start(build, large)
    const client = await rawConnection(service.url)
    client.pause()
    client.write(rawRequest({ path: '/work', tenant: service.tenant, key: '"key-1"', body }))
    await waitUntil('a part of it is on its way', () => service.firstSocket()?.bytesWritten > 0)
    client.resetAndDestroy()
    await waitUntil('the server has noticed', () => service.firstSocket().destroyed)
    const answered = await service.retry()
    expect([answered.status, answered.body.length, isReplay(answered), service.runs()]).toEqual([201, large.length, true, 1])
  })
})

test.each<[string, (response: ServerResponse) => Promise<void>]>([
  ['stream.pipeline()', (response) => pipeline(Readable.from(['one ', 'two']), response)],
  ['a stream of the web', (response) => Readable.toWeb(Readable.from([Buffer.from('one two')])).pipeTo(Writable.toWeb(response))],
])('a client that goes while its key is claimed, %s: the answer is stored, and its handler comes to its end', async (_, answer) => {
  const claiming = new Gate()
  const goOn = new Gate()
  let socket: Socket | undefined
  let isOver = false
  const store = postgresStore(fromPg(database.pool))
  const service = await startService(
    database,
    ({ once, options, ran }) => {
      const listener = protectNode(
        once,
        options,
      )(async (_request, response) => {
        ran()
        // From Node 24 on a stream fails in the end: its response has no connection. The answer is stored by then.
        await answer(response).catch(() => {})
        isOver = true
      })
      return createServer(listener).on('connection', (accepted) => {
        socket ??= accepted
      })
    },
    {
      store: {
        ...store,
        async keyClaim(claim) {
          claiming.open()
          await goOn.opened
          return store.keyClaim(claim)
        },
      },
    },
  )
  const client = await rawConnection(service.url)
  client.write(rawRequest({ path: '/work', tenant: service.tenant, key: '"key-1"', body }))
  await claiming.opened
  client.resetAndDestroy()
  await waitUntil('the server has noticed', () => socket?.destroyed)
  goOn.open()
  await waitUntil('the handler is over', () => isOver)
  const answered = await service.send()
  expect([answered.status, answered.body.toString(), isReplay(answered), service.runs()]).toEqual([200, 'one two', true, 1])
})
