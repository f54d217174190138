// Middleware in front of the layer and behind it: each does to a replay what it does to any answer, or is part of the answer.
import { AsyncLocalStorage } from 'node:async_hooks'
import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import compression from 'compression'
import type { RequestHandler, Response } from 'express'
import { describe, expect, test } from 'vitest'
import { Gate } from '../../src/testing/adapter-cases/adapter-case.js'
import { rawConnection, rawRequest } from '../../src/testing/adapter-cases/client.js'
import { manualClock } from '../../src/testing/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { dependencyOf, frameworks, type Mounted, startExpress, startMounted } from './express-service.js'
import { type Answered, isReplay, replaysAlike, useQuietProcess } from './node-service.js'

const database = useDatabase()
useQuietProcess()

const onFinished = dependencyOf<(message: unknown, listener: (error: unknown, message: ServerResponse) => void) => void>(
  'express',
  'on-finished',
)
const onHeaders = dependencyOf<(response: unknown, listener: () => void) => void>('compression', 'on-headers')

const large = 'a pot of tea '.repeat(1_000)
const json = { 'content-type': 'application/json' }

function decoded({ lines, body }: Answered): string {
  const [encoding] = lines('content-encoding')
  if (encoding === undefined) return body.toString()
  return (encoding === 'br' ? brotliDecompressSync(body) : gunzipSync(body)).toString()
}

type Save = () => Promise<unknown>

/** As express-session does it: the answer ends when the session is saved. */
const savesFirst =
  (save: Save): RequestHandler =>
  (_request, response, next) => {
    const { end } = response
    let ended = false
    response.end = function endWhenSaved(this: Response, ...args: Parameters<typeof end>) {
      if (!ended) save().then(() => end.apply(response, args))
      ended = true
      return response
    } as typeof end
    next()
  }

/** As many loggers do it: they put the method back and call it. */
const putsBackAndSavesFirst =
  (save: Save): RequestHandler =>
  (_request, response, next) => {
    const { end } = response
    response.end = function endWhenSaved(this: Response, ...args: Parameters<typeof end>) {
      response.end = end
      save().then(() => response.end(...args))
      return response
    } as typeof end
    next()
  }

/** Says when the last byte was written, in a header: so it must come before the first. */
const marksTheEnd: RequestHandler = (_request, response, next) => {
  const { end } = response
  response.end = function endMarked(this: Response, ...args: Parameters<typeof end>) {
    response.setHeader('x-ended', String(response.statusCode))
    return end.apply(response, args)
  } as typeof end
  next()
}

describe.each(frameworks)('%s', (_, framework) => {
  const start = (mounted: Mounted, onceOptions = {}) => startMounted(framework, database, mounted, onceOptions)

  describe('compression', () => {
    const sent: [name: string, answer: Mounted['answer']][] = [
      ['send()', (response) => response.type('text').send(large)],
      ['write() and end()', (response) => response.type('text').write(large) && response.end('!')],
      ['pipe()', (response) => Readable.from([large, large]).pipe(response.type('text'))],
    ]

    test.each(sent)('in front, %s: every client gets what it can read', async (_name, answer) => {
      const service = await start({ before: compression(), answer: answer as NonNullable<typeof answer> })
      const texts: string[] = []
      for (const encoding of ['gzip', 'br', 'identity', 'gzip']) {
        const answered = await service.send({ headers: { ...json, 'accept-encoding': encoding } })
        expect(answered.lines('content-encoding')).toEqual(encoding === 'identity' ? [] : [encoding])
        expect(answered.lines('vary')).toEqual(['Accept-Encoding'])
        texts.push(decoded(answered))
      }
      expect(texts[0]?.startsWith(large)).toBe(true)
      expect([new Set(texts).size, service.runs()]).toEqual([1, 1])
    })

    test.each(sent)('behind, %s: the compressed bytes are the answer', async (_name, answer) => {
      const service = await start({ behind: compression(), answer: answer as NonNullable<typeof answer> })
      const request = { headers: { ...json, 'accept-encoding': 'gzip' } }
      const first = await replaysAlike(service, request, ['content-encoding', 'vary'])
      expect(first.lines('content-encoding')).toEqual(['gzip'])
      expect(decoded(first).startsWith(large)).toBe(true)
    })

    test('in front of an answer over the cap: it flows, compressed and whole', async () => {
      const service = await start(
        { before: compression(), answer: (response) => Readable.from(Array(50).fill(large)).pipe(response.type('text')) },
        { maxAnswerBytes: 100_000 },
      )
      const answered = await service.send({ headers: { ...json, 'accept-encoding': 'gzip' } })
      expect(answered.lines('content-encoding')).toEqual(['gzip'])
      expect(decoded(answered) === large.repeat(50)).toBe(true)
      expect([(await service.send()).status, service.runs()]).toEqual([410, 1])
    })

    test('in front of an answer over the cap whose client stops reading, and goes: the handler comes to its end', async () => {
      let source: Readable | undefined
      let made = 0
      const service = await start(
        {
          before: compression({ level: 0 }),
          answer(response) {
            source = new Readable({
              read() {
                made += 1
                this.push(made <= 1_000 ? Buffer.alloc(64 * 1024, 'x') : null)
              },
            })
            source.pipe(response.type('text'))
          },
        },
        { maxAnswerBytes: 100_000 },
      )
      const client = await rawConnection(service.url)
      client.pause()
      const request = rawRequest({ path: '/work', tenant: service.tenant, key: '"key-1"', body: '{}' })
      client.write(request.replace('\r\n', '\r\nAccept-Encoding: gzip\r\n'))
      await waitUntil('the handler is made to wait', () => source?.readableFlowing === false)
      expect(made).toBeLessThan(1_000)
      client.resetAndDestroy()
      await waitUntil('it is done', async () => (await service.keyState()) === 'complete')
      expect([made, service.runs()]).toEqual([1_001, 1])
    })
  })

  describe('middleware that holds end() back until something is saved', () => {
    const savers: [name: string, saver: (save: Save) => RequestHandler][] = [
      ['as express-session does', savesFirst],
      ['as loggers do', putsBackAndSavesFirst],
    ]
    const soon = () => new Promise((resolve) => setImmediate(resolve))

    test.each(savers)('in front, %s', async (_name, saver) => {
      const service = await start({ before: saver(soon) })
      expect((await replaysAlike(service)).body.toString()).toBe('run 1')
      expect((await service.send({ body: '{"item":"mud"}' })).status).toBe(422)
      expect((await service.send({ key: '""' })).status).toBe(400)
    })

    test.each(savers)('behind, %s', async (_name, saver) => {
      const service = await start({ behind: saver(soon) })
      expect((await replaysAlike(service)).body.toString()).toBe('run 1')
    })

    test.each(savers)('in front, %s, while a handler answers that ran too long: the client gets the 503', async (_name, saver) => {
      const clock = manualClock()
      const [saving, saved, late, answered] = [new Gate(), new Gate(), new Gate(), new Gate()]
      const save = () => {
        saving.open()
        return saved.opened
      }
      const service = await start(
        {
          before: saver(save),
          async answer(response) {
            await late.opened
            response.status(201).setHeader('x-late', '1').send('late')
            answered.open()
          },
        },
        { clock, maxRun: '1m' },
      )
      const first = service.send()
      await waitUntil('the handler runs', () => service.runs() === 1)
      clock.advance(60_000)
      await saving.opened
      late.open()
      await answered.opened
      saved.open()
      const { status, lines } = await first
      expect([status, lines('x-late'), lines('content-type')]).toEqual([503, [], ['application/problem+json']])
    })
  })

  test('a session in front is saved, although its client has gone', async () => {
    const gate = new Gate()
    let saved = 0
    const save = async () => {
      saved += 1
    }
    const service = await start({
      before: savesFirst(save),
      async answer(response) {
        await gate.opened
        response.send('tea')
      },
    })
    const client = await rawConnection(service.url)
    client.write(rawRequest({ path: '/work', tenant: service.tenant, key: '"key-1"', body: '{}' }))
    await waitUntil('the handler runs', () => service.runs() === 1)
    client.resetAndDestroy()
    await service.send({ method: 'GET', path: '/', body: null, headers: {} })
    gate.open()
    await waitUntil('it is saved', () => saved === 2)
    expect((await service.send({ body: '{}' })).body.toString()).toBe('tea')
  })

  test('a file is read to its end, although its client has gone and a logger in front knows it', async () => {
    const gate = new Gate()
    let known = false
    const service = await start({
      before(_request, response, next) {
        onFinished(response, () => {
          known = true
        })
        next()
      },
      async answer(response) {
        await gate.opened
        response.sendFile(fileURLToPath(import.meta.url))
      },
    })
    const client = await rawConnection(service.url)
    client.write(rawRequest({ path: '/work', tenant: service.tenant, key: '"key-1"', body: '{}' }))
    await waitUntil('the handler runs', () => service.runs() === 1)
    client.resetAndDestroy()
    await waitUntil('the logger knows', () => known)
    gate.open()
    await waitUntil('it is stored', async () => (await service.keyState()) === 'complete')
    expect((await service.send({ body: '{}' })).body.toString()).toContain('read to its end')
  })

  test('a timeout in front that answers while the handler runs answers its client; what the handler answers is stored for the next', async () => {
    const gate = new Gate()
    const service = await start({
      before(_request, response, next) {
        if (service.runs() === 0)
          void waitUntil('the handler runs', () => service.runs() === 1).then(() => response.status(408).send('too slow'))
        next()
      },
      async answer(response) {
        await gate.opened
        response.status(201).set('x-tea', 'green')
        response.write('tea')
        response.end()
      },
    })
    const first = await service.send()
    expect([first.status, first.body.toString()]).toEqual([408, 'too slow'])
    expect((await service.send()).status).toBe(409)
    gate.open()
    await waitUntil('the answer is stored', async () => (await service.keyState()) === 'complete')
    const again = await service.send()
    expect([again.status, again.body.toString(), again.lines('x-tea'), isReplay(again), service.runs()]).toEqual([
      201,
      'tea',
      ['green'],
      true,
      1,
    ])
    expect(again.lines('content-length')).toEqual(['3'])
  })

  test('a timeout in front that answers before the handler runs, at length: the connection serves the next request', async () => {
    const gate = new Gate()
    const size = 20_000_000
    const service = await start({
      before(request, response, next) {
        // Now the key is being claimed.
        if (request.path === '/work') setImmediate(() => response.end(Buffer.alloc(size, 'x')))
        next()
      },
      async answer(response) {
        await gate.opened
        response.send('too late')
      },
    })
    const client = await rawConnection(service.url)
    client.pause()
    client.write(rawRequest({ path: '/work', tenant: service.tenant, key: '"key-1"', body: '{}' }))
    await waitUntil('the handler runs', () => service.runs() === 1)
    client.resume()
    await waitUntil('the client has it all', () => client.received().length > size)
    gate.open()
    client.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')
    await waitUntil('the next one is answered', () => client.received().endsWith('home'))
    client.destroy()
  })

  test('a timeout in front that has answered before the handler runs: whoever waits for the end behind it is told, once the attempt is over', async () => {
    const told = new Gate()
    const service = await start({
      before(_request, response, next) {
        setImmediate(() => response.end('too slow'))
        next()
      },
      // It does not answer.
      answer: (response) => response.once('close', () => told.open()),
      options: { maxRun: 50, lease: '10s' },
    })
    expect((await service.send()).body.toString()).toBe('too slow')
    await told.opened
    expect(service.runs()).toBe(1)
  })

  test('middleware in front that sets headers when the answer ends has its say at replays and refusals, too', async () => {
    const service = await start({ before: marksTheEnd, answer: (response) => response.status(201).send('tea') })
    const first = await replaysAlike(service)
    expect(first.lines('x-ended')).toEqual(['201'])
    expect((await service.send()).lines('x-ended')).toEqual(['201'])
    expect((await service.send({ body: '{}' })).lines('x-ended')).toEqual(['422'])
  })

  test('loggers that wait for the end of a response, in front and behind, are told of each once', async () => {
    const log: string[] = []
    const logger =
      (where: string): RequestHandler =>
      (_request, response, next) => {
        onFinished(response, (error, { statusCode }) => log.push(`${where} ${statusCode}${error ? ' with an error' : ''}`))
        next()
      }
    const service = await start({
      before: logger('front'),
      behind: logger('behind'),
      answer: (response) => response.status(201).send('tea'),
    })
    await replaysAlike(service)
    await service.send({ body: '{}' })
    await waitUntil('all is logged', () => log.length === 4)
    expect(log).toEqual(['front 201', 'behind 201', 'front 201', 'front 422'])
  })

  test('a logger behind, whose client goes: it is told when the work is done, and not before', async () => {
    const log: string[] = []
    const gate = new Gate()
    const service = await start({
      // The list that on-finished keeps is that of the first who asks.
      before: (_request, response, next) => {
        onFinished(response, () => log.push('front'))
        next()
      },
      behind: (_request, response, next) => {
        onFinished(response, () => log.push('behind'))
        next()
      },
      async answer(response) {
        await gate.opened
        log.push('done')
        response.send('tea')
      },
    })
    const client = await rawConnection(service.url)
    client.write(rawRequest({ path: '/work', tenant: service.tenant, key: '"key-1"', body: '{}' }))
    await waitUntil('the handler runs', () => service.runs() === 1)
    client.resetAndDestroy()
    await waitUntil('the client has gone', () => log.length > 0)
    gate.open()
    await waitUntil('all is logged', () => log.length === 3)
    expect(log).toEqual(['front', 'done', 'behind'])
  })

  test('what a request carries through asynchronous calls reaches its handler', async () => {
    const storage = new AsyncLocalStorage<string>()
    const service = await start({
      before: (request, _response, next) => storage.run(request.get('x-trace') as string, next),
      answer: (response) => response.send(storage.getStore()),
    })
    expect((await service.send({ headers: { ...json, 'x-trace': 'a' } })).body.toString()).toBe('a')
  })
})

test('middleware in front that throws when an answer is sent breaks its connection off, and nothing else; a retry replays', async () => {
  const warnings: (Error & { code?: string })[] = []
  const hear = (warning: Error) => void warnings.push(warning)
  const listeners = process.listeners('warning')
  process.removeAllListeners('warning').on('warning', hear)
  let broken = true
  const service = await startExpress(frameworks[0]?.[1] as never, database, (app, { protect, ran }) => {
    app.use((_request, response, next) => {
      onHeaders(response, () => {
        if (broken) throw new Error('no disk for the log')
      })
      next()
    })
    app.use(protect())
    app.post('/work', (_request, response) => void response.send(`run ${ran()}`))
  })
  await expect(service.send()).rejects.toThrow()
  await waitUntil('it is told', () => warnings.length > 0)
  process.off('warning', hear)
  for (const listener of listeners) process.on('warning', listener as never)
  expect(warnings).toMatchObject([{ code: 'ONCEKEY_NOT_SENT', message: expect.stringContaining('no disk for the log') }])
  broken = false
  const again = await service.send()
  expect([again.body.toString(), isReplay(again)]).toEqual(['run 1', true])
})
