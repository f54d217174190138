// Body parsers behind the layer and in front of it.
import type { IncomingMessage } from 'node:http'
import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import type { Request, RequestHandler } from 'express'
import { describe, expect, test } from 'vitest'
import { useDatabase } from '../support/postgres/database.js'
import { dependencyOf, frameworks, startExpress } from './express-service.js'
import { isReplay, replaysAlike, useQuietProcess } from './node-service.js'

const database = useDatabase()
useQuietProcess()

interface Multer {
  (options: { storage: unknown }): { single(field: string): RequestHandler }
  memoryStorage(): unknown
}
const multer = dependencyOf<Multer>('@nestjs/platform-express', 'multer')
const busboy = dependencyOf<(options: { headers: IncomingMessage['headers'] }) => NodeJS.WritableStream>('multer', 'busboy')

const form = {
  headers: { 'content-type': 'multipart/form-data; boundary=pot' },
  body: [
    '--pot\r\nContent-Disposition: form-data; name="item"\r\n\r\ntea\r\n',
    '--pot\r\nContent-Disposition: form-data; name="leaf"; filename="leaf.txt"\r\nContent-Type: text/plain\r\n\r\ngreen\r\n--pot--\r\n',
  ],
}

describe.each(frameworks)('%s', (_, framework) => {
  /** Answers with what the handler makes of its request. */
  const start = (mounted: { before?: RequestHandler; behind?: RequestHandler; options?: object }, handle: (request: Request) => unknown) =>
    startExpress(framework, database, (app, { protect, ran, keepErrors }) => {
      if (mounted.before) app.use(mounted.before)
      app.use(protect(mounted.options))
      if (mounted.behind) app.use(mounted.behind)
      app.post('/work', async (request, response, next) => {
        ran()
        try {
          response.json(await handle(request))
        } catch (error) {
          next(error)
        }
      })
      app.use(keepErrors)
    })

  test.each([
    ['no length', {}],
    ['a length of 0', { 'content-length': '0' }],
  ])('a parser in front that made something of a body with %s: there is none, so nothing is missing', async (_, headers) => {
    const before: RequestHandler = (request, _response, next) => {
      request.body = {}
      request.on('end', next).resume()
    }
    const service = await start({ before }, ({ body }) => ({ body }))
    const { body } = await replaysAlike(service, { headers, body: null })
    expect(body.toString()).toBe('{"body":{}}')
  })

  const bodies: [name: string, parser: RequestHandler, type: string, sent: string, parsed: unknown][] = [
    ['json', framework.json(), 'application/json', '{"item":"tea"}', { item: 'tea' }],
    [
      'urlencoded',
      framework.urlencoded({ extended: true }),
      'application/x-www-form-urlencoded',
      'item[kind]=tea',
      { item: { kind: 'tea' } },
    ],
    ['text', framework.text(), 'text/plain', 'tea', 'tea'],
  ]

  test.each(bodies)('express.%s() behind: the handler has its body', async (_name, behind, type, sent, parsed) => {
    const service = await start({ behind }, ({ body }) => body)
    const first = await replaysAlike(service, { headers: { 'content-type': type }, body: sent })
    expect(JSON.parse(first.body.toString())).toEqual(parsed)
    expect((await service.send({ headers: { 'content-type': type }, body: `${sent} ` })).status).toBe(type.includes('json') ? 200 : 422)
  })

  test('express.raw() behind: the handler has its bytes', async () => {
    const service = await start({ behind: framework.raw() }, ({ body }) => [...body])
    const body = Uint8Array.of(0, 255, 10)
    const first = await replaysAlike(service, { headers: { 'content-type': 'application/octet-stream' }, body })
    expect(JSON.parse(first.body.toString())).toEqual([0, 255, 10])
  })

  test('express.json() behind refuses what is no JSON: its 400 is stored', async () => {
    const service = await start({ behind: framework.json() }, ({ body }) => body)
    const first = await service.send({ body: '{"item":' })
    const again = await service.send({ body: '{"item":' })
    expect([first.status, again.status, isReplay(again), service.runs()]).toEqual([400, 400, true, 0])
    expect(again.body).toEqual(first.body)
  })

  test('multer behind: the handler has fields and files', async () => {
    const upload = multer({ storage: multer.memoryStorage() }).single('leaf')
    const service = await start({ behind: upload }, (request) => {
      const { file } = request as Request & { file: { buffer: Buffer; originalname: string } }
      return [request.body.item, file.originalname, file.buffer.toString()]
    })
    const first = await replaysAlike(service, form)
    expect(JSON.parse(first.body.toString())).toEqual(['tea', 'leaf.txt', 'green'])
    expect((await service.send({ ...form, body: form.body.map((part) => part.replace('green', 'black')) })).status).toBe(422)
  })

  test('busboy behind: the handler pipes its request into it', async () => {
    const service = await start({}, async (request) => {
      const parts: (string | Promise<string>)[] = []
      const parser = busboy({ headers: request.headers })
      parser.on('field', (name: string, value: string) => parts.push(`${name}=${value}`))
      parser.on('file', (name: string, file: NodeJS.ReadableStream) => parts.push(text(file).then((content) => `${name}=${content}`)))
      await new Promise((resolve) => request.pipe(parser).on('close', resolve))
      return Promise.all(parts)
    })
    const first = await replaysAlike(service, form)
    expect(JSON.parse(first.body.toString())).toEqual(['item=tea', 'leaf=green'])
  })

  test('a handler pipes its request through a stream into its response', async () => {
    const service = await startExpress(framework, database, (app, { protect, ran }) => {
      app.use(protect())
      app.post('/work', (request, response) => {
        ran()
        request.pipe(new PassThrough()).pipe(response)
      })
    })
    expect((await replaysAlike(service)).body.toString()).toBe('{"item":"tea"}')
  })

  test.each([...bodies.map(([name, before, type, sent]) => [name, before, type, sent] as const)])(
    'express.%s() in front: raw_body_gone goes to the error handler, and nothing runs',
    async (_name, before, type, sent) => {
      const service = await start({ before }, ({ body }) => body)
      const answered = await service.send({ headers: { 'content-type': type }, body: sent })
      expect([answered.status, service.runs()]).toEqual([500, 0])
      expect(service.errors).toMatchObject([{ code: 'raw_body_gone' }])
      expect(await service.keyState()).toBeUndefined()
      // Without a key there is nothing to compare.
      expect((await service.send({ headers: { 'content-type': type }, body: sent, key: null })).status).toBe(200)
    },
  )

  test("a middleware in front that reads the body and leaves nothing: raw_body_gone with fingerprint: 'parsed', too", async () => {
    const swallow: RequestHandler = (request, _response, next) => void request.resume().once('end', next)
    const service = await start({ before: swallow, options: { fingerprint: 'parsed' } }, () => 'done')
    for (const body of ['{"item":"tea"}', '{"item":"coffee"}']) expect((await service.send({ body })).status).toBe(500)
    expect(service.errors).toMatchObject([{ code: 'raw_body_gone' }, { code: 'raw_body_gone' }])
    expect(service.runs()).toBe(0)
  })

  test('without an error handler of the application, raw_body_gone is a 500', async () => {
    const service = await startExpress(framework, database, (app, { protect }) => {
      app.use(framework.json())
      app.use(protect())
    })
    expect((await service.send()).status).toBe(500)
  })

  test('express.json() in front of a body that it does not parse, or of none: nothing is gone', async () => {
    const service = await start({ before: framework.json(), behind: framework.text() }, ({ body }) => body ?? null)
    const first = await replaysAlike(service, { headers: { 'content-type': 'text/plain' }, body: 'tea' })
    expect(JSON.parse(first.body.toString())).toBe('tea')
    expect((await service.send({ path: '/work?empty', body: null, headers: {}, key: '"key-2"' })).status).toBe(200)
    expect((await service.send({ path: '/work?chunks', body: [], key: '"key-3"' })).status).toBe(200)
  })

  test('express.json() in front that keeps the bytes as rawBody: they are compared', async () => {
    const verify = (request: IncomingMessage, _response: unknown, rawBody: Buffer) => void Object.assign(request, { rawBody })
    const service = await start({ before: framework.json({ verify }) }, ({ body }) => body)
    await replaysAlike(service, { body: '{"id":9007199254740993}' })
    expect((await service.send({ body: '{"id":9007199254740992}' })).status).toBe(422)
  })

  test.each(bodies)("express.%s() in front, and fingerprint: 'parsed'", async (_name, before, type, sent, parsed) => {
    const service = await start({ before, options: { fingerprint: 'parsed' } }, ({ body }) => body)
    const request = { headers: { 'content-type': type }, body: sent }
    const first = await replaysAlike(service, request)
    expect(JSON.parse(first.body.toString())).toEqual(parsed)
    expect((await service.send({ ...request, body: sent.replace('tea', 'mud') })).status).toBe(422)
  })

  test('express.raw() in front: the bytes are compared', async () => {
    const service = await start({ before: framework.raw({ type: () => true }) }, ({ body }) => body.toString())
    const first = await replaysAlike(service)
    expect(JSON.parse(first.body.toString())).toBe('{"item":"tea"}')
    expect((await service.send({ body: '{"item":"mud"}' })).status).toBe(422)
  })

  test('authentication in front that takes its time, express.json() behind', async () => {
    const service = await start(
      { before: (_request, _response, next) => void setImmediate(next), behind: framework.json() },
      ({ body }) => body,
    )
    expect(JSON.parse((await replaysAlike(service)).body.toString())).toEqual({ item: 'tea' })
  })

  test('a middleware in front that listens to the body, express.json() behind: both have it, and once', async () => {
    let heard = ''
    const listens: RequestHandler = (request, _response, next) => {
      request.on('data', (piece) => {
        heard += piece
      })
      next()
    }
    const service = await start({ before: listens, behind: framework.json() }, ({ body }) => body)
    expect((await service.send()).body.toString()).toBe('{"item":"tea"}')
    expect(heard).toBe('{"item":"tea"}')
    expect(isReplay(await service.send())).toBe(true)
  })

  test('a middleware between the layer and express.json() that takes its time', async () => {
    const service = await startExpress(framework, database, (app, { protect, ran }) => {
      app.use(protect())
      app.use((_request, _response, next) => void setImmediate(next))
      app.use(framework.json())
      app.post('/work', (request, response) => {
        ran()
        response.json(request.body)
      })
    })
    expect(JSON.parse((await replaysAlike(service)).body.toString())).toEqual({ item: 'tea' })
  })
})
