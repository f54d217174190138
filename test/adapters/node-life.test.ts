// What can become of a handler, its lease and its store while a client waits.

import { createServer, IncomingMessage, type Server, ServerResponse } from 'node:http'
import { PassThrough, Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { describe, expect, test } from 'vitest'
import { idempotency } from '../../src/adapters/node.js'
import { OncekeyError } from '../../src/core/errors.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { Gate } from '../../src/testing/adapter-cases/adapter-case.js'
import { rawConnection, rawRequest } from '../../src/testing/adapter-cases/client.js'
import { manualClock } from '../../src/testing/index.js'
import { openRaw } from '../clients/raw-connection.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { type Handler, isReplay, type Service, stacks, startService, useQuietProcess } from './node-service.js'

const database = useDatabase()
useQuietProcess()

const minuteMs = 60_000

/** The lease runs out, as if its holder had been frozen for so long. */
async function expireLease({ tenant }: Service): Promise<void> {
  await database.pool.query("update oncekey.keys set locked_until = locked_until - interval '1 hour' where tenant = $1", [tenant])
}

describe.each(stacks)('%s', (_, stack) => {
  const start = (handler: Handler, onceOptions: Parameters<typeof startService>[2] = {}): Promise<Service> =>
    startService(
      database,
      (parts) =>
        stack((request, response) => {
          if (request.method === 'POST') parts.ran()
          return handler(request, response)
        }, parts),
      onceOptions,
    )

  test('the server is closed while answers are being stored: their clients get them', async () => {
    const [storing, go] = [new Gate(), new Gate()]
    const inner = postgresStore(fromPg(database.pool))
    const keyFinish: typeof inner.keyFinish = async (finish, limit) => {
      storing.open()
      await go.opened
      return inner.keyFinish(finish, limit)
    }
    let server: Server | undefined
    const service = await startService(
      database,
      (parts) => {
        server = createServer(stack((_request, response) => response.end('stored'), parts))
        return server
      },
      { store: { ...inner, keyFinish } },
    )
    const answered = service.send()
    await storing.opened
    server?.close()
    server?.closeIdleConnections()
    go.open()
    const { status, body } = await answered
    expect([status, body.toString()]).toEqual([200, 'stored'])
  })

  test('a server that leaves it to its handler to ask for the body (checkContinue) gets it', async () => {
    const service = await startService(database, (parts) => {
      const listener = stack(async (request, response) => response.end(`got ${await text(request)}`), parts)
      return createServer().on('checkContinue', listener)
    })
    const socket = await rawConnection(service.url)
    const head = `POST /work HTTP/1.1\r\nHost: a\r\nX-Tenant: ${service.tenant}\r\nIdempotency-Key: "k"\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n`
    socket.write(head)
    await waitUntil('the body is asked for', () => socket.received().startsWith('HTTP/1.1 100'))
    socket.write('tea')
    await waitUntil('it is answered', () => socket.received().includes('got tea'))
    socket.destroy()
  })

  test('a 205 has no body, for its first client as in a replay', async () => {
    const service = await start((_request, response) => {
      response.statusCode = 205
      response.end('nothing of this')
    })
    const [first, again] = [await service.send(), await service.send()]
    expect([first.status, first.body.length, again.status, again.body.length, isReplay(again)]).toEqual([205, 0, 205, 0, true])
  })

  const lateAnswers: [name: string, answer: Handler][] = [
    ['answers', (_request, response) => response.setHeader('x-late', '1').writeHead(201, { 'x-later': '2' }).end('late')],
    [
      'writes, and waits until it is written',
      async (_request, response) => {
        await new Promise<unknown>((resolve) => response.write('late', resolve))
        await new Promise<void>((resolve) => response.end(resolve))
      },
    ],
    ['pipes', (_request, response) => pipeline(Readable.from(['late ', 'later']), response).catch(() => {})],
    [
      'throws',
      () => {
        throw new Error('late')
      },
    ],
    [
      'writes, and throws',
      (_request, response) => {
        response.write('late')
        throw new Error('later')
      },
    ],
  ]

  test.each(lateAnswers)(
    'a handler that runs too long and then %s: its client got a 503, and keeps its connection',
    async (_name, answer) => {
      const gate = new Gate()
      const done = new Gate()
      const clock = manualClock()
      const service = await start(
        async (request, response) => {
          if (request.method !== 'POST' || service.runs() > 1) return response.end('in time')
          try {
            await gate.opened
            return await answer(request, response)
          } finally {
            done.open()
          }
        },
        { clock, maxRun: '1m' },
      )
      const client = await rawConnection(service.url)
      client.write(rawRequest({ path: '/work', tenant: service.tenant, key: '"key-1"', body: '{}' }))
      await waitUntil('the handler runs', () => service.runs() === 1)
      clock.advance(minuteMs)
      await waitUntil('the client has its answer', () => client.received().includes('"interrupted"'))
      expect(client.received()).toMatch(/^HTTP\/1.1 503 Service Unavailable\r\n/)
      expect(client.received()).toMatch(/\r\nretry-after: 1\r\n/i)

      gate.open()
      await done.opened
      client.write(`GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n`)
      await waitUntil('the connection goes on', () => client.received().endsWith('in time'))
      expect(client.received()).not.toMatch(/late/)
      // Given back, as its afterFailure says.
      expect((await service.send({ body: '{}' })).body.toString()).toBe('in time')
      client.destroy()
    },
  )

  test('a handler that runs too long while its answer flows: the client is cut off, and does not take it for the whole', async () => {
    const clock = manualClock()
    const flows = new Gate()
    const service = await start(
      (_request, response) => {
        if (service.runs() > 1) return response.end('in time')
        for (let piece = 0; piece < 20; piece += 1) response.write('x'.repeat(1_000))
        return flows.open()
      },
      { clock, maxRun: '1m', maxAnswerBytes: 1_000 },
    )
    const answered = expect(service.send()).rejects.toThrow()
    await flows.opened
    clock.advance(minuteMs)
    await answered
    await waitUntil('the key is free', async () => (await service.keyState()) === 'pending')
    expect((await service.send()).body.toString()).toBe('in time')
  })

  /** A handler whose first run waits for the test, and a retry that takes its key over. */
  async function startTakenOver(onceOptions: Parameters<typeof startService>[2] = {}) {
    const gates = [new Gate(), new Gate()]
    const service = await start(async (_request, response) => {
      const run = service.runs()
      response.statusMessage = 'All Good'
      response.setHeader('x-run', run)
      await gates[run - 1]?.opened
      response.end(`run ${run}`)
    }, onceOptions)
    const first = service.send()
    await waitUntil('the handler runs', () => service.runs() === 1)
    await expireLease(service)
    const second = service.send()
    await waitUntil('the handler runs again', () => service.runs() === 2)
    return { service, first, second, openFirst: gates[0]?.open as () => void, openSecond: gates[1]?.open as () => void }
  }

  async function isInterrupted(answer: ReturnType<Service['send']>): Promise<void> {
    const { status, body, lines } = await answer
    expect([status, JSON.parse(body.toString()).code, lines('x-run')]).toEqual([503, 'interrupted', []])
  }

  test('a lease that is lost while the handler runs, as a heartbeat finds out: 503, and the late answer is not stored', async () => {
    const clock = manualClock()
    const { service, first, second, openFirst, openSecond } = await startTakenOver({ clock, lease: '10m', maxRun: '24h' })
    clock.advance(4 * minuteMs)
    await isInterrupted(first)
    openFirst()
    openSecond()
    expect((await second).body.toString()).toBe('run 2')
    expect((await service.send()).body.toString()).toBe('run 2')
  })

  test('a lease that was lost, as the store says at the end: 503, and the answer is not stored', async () => {
    const { service, first, second, openFirst, openSecond } = await startTakenOver()
    openFirst()
    await isInterrupted(first)
    expect([await service.keyState(), service.events().includes('finished')]).toEqual(['processing', false])
    openSecond()
    expect((await second).body.toString()).toBe('run 2')
    expect((await service.send()).body.toString()).toBe('run 2')
  })

  test.each(['store_failed', 'store_unavailable'] as const)(
    'D7: a store that fails at the end (%s): the client gets the true answer, and an event tells of it',
    async (code) => {
      const clock = manualClock()
      const store = postgresStore(fromPg(database.pool))
      const failed = new Gate()
      const service = await start((_request, response) => response.writeHead(201, { 'x-order': '1' }).end('ordered'), {
        clock,
        maxRun: '24h',
        store: {
          ...store,
          async keyFinish() {
            failed.open()
            throw new OncekeyError(code, 'no disk')
          },
        },
      })
      let answered: Awaited<ReturnType<Service['send']>> | undefined
      service.send().then((answer) => {
        answered = answer
      })
      await failed.opened
      // It is tried again for as long as the lease lasts.
      const { status, body, lines } = await waitUntil('the client has its answer', () => {
        clock.advance(minuteMs)
        return answered
      })
      expect([status, body.toString(), lines('x-order')]).toEqual([201, 'ordered', ['1']])
      expect(service.events()).toContain('answer-not-stored')
      expect(service.runs()).toBe(1)
    },
  )

  test('somebody in front who waits for the end of a request whose client goes is told when the work is done, and not before', async () => {
    const [reached, go, closed] = [new Gate(), new Gate(), new Gate()]
    let isClosed = false
    const service = await startService(database, (parts) =>
      stack(
        async (request, response) => {
          if (request.method === 'POST') {
            reached.open()
            await go.opened
          }
          response.end('done')
        },
        parts,
        async (request) => {
          if (request.method !== 'POST') return
          request.once('close', () => {
            isClosed = true
            closed.open()
          })
        },
      ),
    )
    const client = await rawConnection(service.url)
    client.write(rawRequest({ path: '/work', tenant: service.tenant, key: '"key-1"', body: '{"item":"tea"}' }))
    await reached.opened
    client.resetAndDestroy()
    // A whole round trip of another client, so that the server has noticed.
    await service.send({ method: 'GET', key: null, body: null, headers: {} })
    expect(isClosed).toBe(false)
    go.open()
    await closed.opened
  })

  test.each<[string, (response: ServerResponse) => unknown, 'taken over' | 'held']>([
    ['answers', (response) => response.end('done'), 'held'],
    // It would refuse a response that is closed, and the work would count as failed.
    ['answers by pipeline()', (response) => pipeline(Readable.from(['do', 'ne']), response), 'held'],
    ['destroys its response', (response) => response.destroy(), 'held'],
    ['answers after it has lost its lease', (response) => response.end('done'), 'taken over'],
  ])('the client goes, and the handler %s: who waits for the end of the response is told once, then', async (how, end, key) => {
    const [reached, go, closed] = [new Gate(), new Gate(), new Gate()]
    let closes = 0
    let runs = 0
    const service = await start(async (request, response) => {
      if (request.method === 'GET' || ++runs > 1) return response.end('another')
      response.on('close', () => {
        closes += 1
        closed.open()
      })
      reached.open()
      await go.opened
      await end(response)
    })
    const client = await rawConnection(service.url)
    client.write(rawRequest({ path: '/work', tenant: service.tenant, key: '"key-1"', body: '{"item":"tea"}' }))
    await reached.opened
    client.resetAndDestroy()
    // A whole round trip of another client, so that the server has noticed.
    const roundTrip = () => service.send({ method: 'GET', key: null, body: null, headers: {} })
    await roundTrip()
    if (key === 'taken over') {
      await expireLease(service)
      expect((await service.send()).body.toString()).toBe('another')
    }
    expect(closes).toBe(0)
    go.open()
    await closed.opened
    const again = await service.send()
    expect([closes, isReplay(again)]).toEqual([1, key === 'taken over' || how.startsWith('answers')])
  })

  test('thirty requests on one connection leave nothing behind', async () => {
    const service = await start((_request, response) => response.end('tea'))
    const client = await openRaw(Number(new URL(service.url).port))
    for (let number = 1; number <= 30; number += 1) {
      // Each of them twice: as often a run as a replay.
      const path = `/work/${number >> 1}`
      client.send(rawRequest({ path, tenant: service.tenant, key: '"key-1"', body: '{}' }))
      expect((await client.response()).body).toBe('tea')
    }
    expect(service.runs()).toBe(16)
  })

  test('thirty requests at once on one connection', async () => {
    const service = await start((_request, response) => response.end('tea'))
    const client = await rawConnection(service.url)
    const paths = Array.from({ length: 30 }, (_each, number) => `/work/${number}`)
    client.write(paths.map((path) => rawRequest({ path, tenant: service.tenant, key: '"key-1"', body: '{}' })).join(''))
    await waitUntil('all are answered', () => client.received().split('tea').length === 31)
    client.destroy()
  })

  test('an answer over the cap is made no faster than its client takes it, and arrives whole', async () => {
    const piece = Buffer.alloc(64 * 1024, 'x')
    const pieces = (64 * 1024 * 1024) / piece.length
    let source: Readable | undefined
    let made = 0
    const service = await start(
      (request, response) => {
        if (request.method !== 'POST') return response.end('elsewhere')
        source = new Readable({
          read() {
            made += 1
            this.push(made <= pieces ? piece : null)
          },
        })
        return source.pipe(response)
      },
      { maxAnswerBytes: 100_000 },
    )
    const client = await rawConnection(service.url)
    client.pause()
    client.write(rawRequest({ path: '/work', tenant: service.tenant, key: '"key-1"', body: '{}' }))
    await waitUntil('the handler is made to wait', () => source?.isPaused() || source?.readableFlowing === false)
    const madeThen = made
    // A whole round trip of another client: had anybody gone on, it would have by now.
    await service.send({ method: 'GET', body: null, headers: {} })
    expect([made, made < pieces]).toEqual([madeThen, true])
    client.removeAllListeners('data')
    let received = 0
    let tail = ''
    client.on('data', (chunk: Buffer) => {
      received += chunk.length
      tail = (tail + chunk.toString('latin1')).slice(-5)
    })
    client.resume()
    await waitUntil('it has arrived', () => tail === '0\r\n\r\n')
    expect(received).toBeGreaterThan(pieces * piece.length)
    expect([(await service.send({ body: '{}' })).status, service.runs()]).toEqual([410, 1])
    client.destroy()
  })

  test('a client that stops reading an answer over the cap, and goes: the handler comes to its end', async () => {
    const piece = Buffer.alloc(64 * 1024, 'x')
    let made = 0
    let source: Readable | undefined
    const service = await start(
      (_request, response) => {
        source = new Readable({
          read() {
            made += 1
            this.push(made <= 1_000 ? piece : null)
          },
        })
        return source.pipe(response)
      },
      { maxAnswerBytes: 100_000 },
    )
    const client = await rawConnection(service.url)
    client.pause()
    client.write(rawRequest({ path: '/work', tenant: service.tenant, key: '"key-1"', body: '{}' }))
    await waitUntil('the handler is made to wait', () => source?.isPaused() || source?.readableFlowing === false)
    client.resetAndDestroy()
    await waitUntil('it is done', async () => (await service.keyState()) === 'complete')
    const again = await service.send({ body: '{}' })
    expect([again.status, isReplay(again), service.runs()]).toEqual([410, true, 1])
  })
})

test('a server that runs functions has no socket', async () => {
  const service = await startService(database, ({ once, options, ran }) => {
    const listener = idempotency(
      once,
      options,
    )(async (request, response) => {
      ran()
      response.end(await text(request))
    })
    // As adapters for such servers make them, from an event.
    return async (given, answer) => {
      const request = Object.assign(new IncomingMessage(null as never), { method: 'POST', url: given.url, complete: true })
      request.rawHeaders = given.rawHeaders
      request.headers = given.headers
      request.push(await text(given))
      request.push(null)
      const response = new ServerResponse(request)
      const written = new PassThrough()
      response.assignSocket(written as never)
      response.once('finish', () => written.end())
      listener(request, response)
      answer.end(await text(written))
    }
  })
  const [first, again] = [await service.send(), await service.send()]
  expect([first.body.toString(), again.body.toString(), service.runs()]).toEqual([
    expect.stringMatching(/^HTTP\/1.1 200 OK.*\{"item":"tea"\}$/s),
    expect.stringMatching(/idempotent-replayed: true.*\{"item":"tea"\}$/is),
    1,
  ])
})
