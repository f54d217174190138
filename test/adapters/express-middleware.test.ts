// Middleware in front of the layer and behind it: each does to a replay what it does to any answer, or is part of the answer.
import { AsyncLocalStorage } from 'node:async_hooks'
import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import compression from 'compression'
import type { RequestHandler, Response } from 'express'
import { describe, expect, test } from 'vitest'
import { header } from '../../src/adapters/express.js'
import { Gate } from '../../src/testing/adapter-cases/adapter-case.js'
import { rawConnection, rawRequest } from '../../src/testing/adapter-cases/client.js'
import { manualClock } from '../../src/testing/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { dependencyOf, type ExpressParts, frameworks, startExpress } from './express-service.js'
import { type Answered, isReplay, replaysAlike, useQuietProcess } from './node-service.js'

const database = useDatabase()
useQuietProcess()

const onFinished = dependencyOf<(message: unknown, listener: (error: unknown, message: ServerResponse) => void) => void>(
  'express',
  'on-finished',
)
const onHeaders = dependencyOf<(response: unknown, listener: () => void) => void>('compression', 'on-headers')
const cors = dependencyOf<() => RequestHandler>('@nestjs/platform-express', 'cors')

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
  interface Mounted {
    readonly before?: RequestHandler
    readonly behind?: RequestHandler
    readonly answer?: (response: Response, run: number) => unknown
    readonly options?: Parameters<ExpressParts['protect']>[0]
  }

  const start = ({ before, behind, answer = (response, run) => response.send(`run ${run}`), options }: Mounted, onceOptions = {}) =>
    startExpress(
      framework,
      database,
      (app, { protect, ran }) => {
        if (before) app.use(before)
        app.use(protect(options))
        if (behind) app.use(behind)
        app.post('/work', (_request, response) => void answer(response, ran()))
        app.get('/', (_request, response) => void response.send('home'))
      },
      onceOptions,
    )

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

  test('a timeout in front that answers while the handler runs answers for it: what the handler says later is dropped', async () => {
    const [gate, done] = [new Gate(), new Gate()]
    const service = await start({
      before(_request, response, next) {
        if (service.runs() === 0)
          void waitUntil('the handler runs', () => service.runs() === 1).then(() => response.status(408).send('too slow'))
        next()
      },
      async answer(response) {
        await gate.opened
        response.write('tea')
        response.end()
        done.open()
      },
    })
    expect((await replaysAlike(service)).body.toString()).toBe('too slow')
    gate.open()
    await done.opened
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

  test('headers that are set in front are fresh at each replay', async () => {
    let number = 0
    const service = await start({
      before(_request, response, next) {
        number += 1
        response.setHeader('x-number', number)
        onHeaders(response, () => response.setHeader('x-when-sent', number))
        next()
      },
    })
    const answers = [await service.send(), await service.send(), await service.send({ body: '{}' })]
    expect(answers.map(({ lines }) => [lines('x-number'), lines('x-when-sent')])).toEqual([
      [['1'], ['1']],
      [['2'], ['2']],
      [['3'], ['3']],
    ])
  })

  test('stripe: a Request-Id that is set in front is the true one: replays have their own, and tell the first', async () => {
    let number = 0
    const service = await start({
      before(_request, response, next) {
        number += 1
        response.setHeader('Request-Id', `req_${number}`)
        next()
      },
      options: { profile: 'stripe' },
    })
    const answers = [await service.send(), await service.send(), await service.send({ body: '{}' })]
    expect(answers.map(({ status, lines }) => [status, lines('request-id'), lines('original-request')])).toEqual([
      [200, ['req_1'], []],
      [200, ['req_2'], ['req_1']],
      [400, ['req_3'], []],
    ])
  })

  test('headers that are set behind are part of the answer', async () => {
    let number = 0
    const service = await start({
      behind(_request, response, next) {
        number += 1
        response.setHeader('x-number', number)
        onHeaders(response, () => response.setHeader('x-when-sent', number))
        next()
      },
    })
    const first = await replaysAlike(service, {}, ['x-number', 'x-when-sent'])
    expect([first.lines('x-number'), first.lines('x-when-sent')]).toEqual([['1'], ['1']])
  })

  test('what a handler makes of a header that was set in front is part of the answer', async () => {
    let number = 0
    const service = await start({
      before(_request, response, next) {
        number += 1
        response.setHeader('x-number', number).setHeader('x-other', number)
        next()
      },
      answer: (response) => response.setHeader('x-number', 'mine').append('X-Other', 'more').send('tea'),
    })
    const first = await replaysAlike(service, {}, ['x-number', 'x-other'])
    expect([first.lines('x-number'), first.lines('x-other')]).toEqual([['mine'], ['1', 'more']])
  })

  test.each(['in front', 'behind'])('cors and security headers, %s: on answers, replays and refusals', async (where) => {
    const headers: RequestHandler = (request, response, next) => {
      response.setHeader('strict-transport-security', 'max-age=1')
      response.removeHeader('x-powered-by')
      cors()(request, response, next)
    }
    const service = await start(where === 'in front' ? { before: headers } : { behind: headers })
    const names = ['access-control-allow-origin', 'strict-transport-security']
    const first = await replaysAlike(service, {}, names)
    expect(names.map((name) => first.lines(name))).toEqual([['*'], ['max-age=1']])
    const refused = await service.send({ body: '{}' })
    expect(refused.lines('strict-transport-security').length).toBe(where === 'in front' ? 1 : 0)
  })

  test('what a request carries through asynchronous calls reaches its handler', async () => {
    const storage = new AsyncLocalStorage<string>()
    const service = await start({
      before: (request, _response, next) => storage.run(request.get('x-trace') as string, next),
      answer: (response) => response.send(storage.getStore()),
    })
    expect((await service.send({ headers: { ...json, 'x-trace': 'a' } })).body.toString()).toBe('a')
  })

  test('mounted twice, it protects once', async () => {
    const service = await startExpress(framework, database, (app, { protect, ran }) => {
      app.use(protect())
      app.post('/work', protect({ afterFailure: 'park' }), (_request, response) => void response.send(`run ${ran()}`))
    })
    await replaysAlike(service)
    expect((await service.send()).lines('idempotent-replayed')).toEqual(['true'])
  })

  test('one that lets a request pass leaves it to the next one', async () => {
    const service = await startExpress(framework, database, (app, { protect, ran }) => {
      app.use(protect({ key: header('X-Other-Key') }))
      app.post('/work', protect(), (_request, response) => void response.send(`run ${ran()}`))
    })
    await replaysAlike(service)
  })

  test('on a router under a path, the whole path counts', async () => {
    const service = await startExpress(framework, database, (app, { protect, ran }) => {
      for (const path of ['/teas', '/coffees']) {
        const router = framework.Router()
        router.use(protect())
        router.post('/work', (request, response) => void response.send(`run ${ran()} of ${request.url}`))
        app.use(path, router)
      }
    })
    const bodies = []
    for (const path of ['/teas/work', '/coffees/work', '/teas/work']) bodies.push((await service.send({ path })).body.toString())
    expect(bodies).toEqual(['run 1 of /work', 'run 2 of /work', 'run 1 of /work'])
    expect(await service.keyState('/teas/work')).toBe('complete')
    expect((await service.send({ path: '/teas/work?strong=1' })).status).toBe(422)
  })

  test('routes with options of their own', async () => {
    const service = await startExpress(framework, database, (app, { protect, ran }) => {
      const fail: RequestHandler = (_request, response) => void response.status(500).send(`run ${ran()}`)
      app.post('/rerun', protect({ afterFailure: 'rerun' }), fail)
      app.post('/store', protect({ afterFailure: 'store' }), fail)
      app.post('/park', protect({ afterFailure: 'park', required: true }), fail)
      app.put('/put', protect({ methods: ['PUT'] }), (_request, response) => void response.send(`run ${ran()}`))
      app.post('/free', (_request, response) => void response.send(`run ${ran()}`))
    })
    const twice = async (path: string, method = 'POST') => {
      const answers = [await service.send({ path, method }), await service.send({ path, method })]
      return answers.map(({ status, body }) => `${status} ${body.toString().slice(0, 5)}`)
    }
    expect(await twice('/rerun')).toEqual(['500 run 1', '500 run 2'])
    expect(await twice('/store')).toEqual(['500 run 3', '500 run 3'])
    expect(await twice('/park')).toEqual(['500 run 4', '500 {"typ'])
    expect(await twice('/put', 'PUT')).toEqual(['200 run 5', '200 run 5'])
    expect(await twice('/free')).toEqual(['200 run 6', '200 run 7'])
    expect((await service.send({ path: '/park', key: null })).status).toBe(400)
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
