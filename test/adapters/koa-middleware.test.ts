// Middleware in front of the layer and behind it, body parsers among it.
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { bodyParser } from '@koa/bodyparser'
import type { Context, Middleware } from 'koa'
import compress from 'koa-compress'
import { describe, expect, test } from 'vitest'
import { header } from '../../src/adapters/koa.js'
import { useDatabase } from '../support/postgres/database.js'
import { startKoa } from './koa-service.js'
import { type Answered, replaysAlike, useQuietProcess } from './node-service.js'

const database = useDatabase()
useQuietProcess()

const large = 'a pot of tea '.repeat(1_000)
const json = { 'content-type': 'application/json' }

interface Mounted {
  readonly before?: Middleware
  readonly behind?: Middleware
  readonly options?: object
  readonly answer?: (ctx: Context, run: number) => unknown
}

const start = (
  { before, behind, options = {}, answer = (ctx, run) => Object.assign(ctx, { body: `run ${run}` }) }: Mounted,
  onceOptions = {},
) =>
  startKoa(
    database,
    (app, { protect, ran }) => {
      if (before) app.use(before)
      app.use(protect(options))
      if (behind) app.use(behind)
      app.use(async (ctx) => {
        await answer(ctx, ran())
      })
    },
    onceOptions,
  )

function decoded({ lines, body }: Answered): string {
  const [encoding] = lines('content-encoding')
  if (encoding === undefined) return body.toString()
  return (encoding === 'br' ? brotliDecompressSync(body) : gunzipSync(body)).toString()
}

describe('koa-compress', () => {
  const sent: [name: string, answer: (ctx: Context) => unknown][] = [
    ['a text', (ctx) => Object.assign(ctx, { body: large })],
    ['JSON', (ctx) => Object.assign(ctx, { body: { large } })],
    ['a stream', (ctx) => Object.assign(ctx, { type: 'text', body: Readable.from([large, large]) })],
  ]

  test.each(sent)('in front of %s: every client gets what it can read', async (_name, answer) => {
    const service = await start({ before: compress(), answer })
    const texts: string[] = []
    for (const encoding of ['gzip', 'br', 'identity', 'gzip']) {
      const answered = await service.send({ headers: { ...json, 'accept-encoding': encoding } })
      expect(answered.lines('content-encoding')).toEqual(encoding === 'identity' ? [] : [encoding])
      texts.push(decoded(answered))
    }
    expect(texts[0]).toContain(large)
    expect([new Set(texts).size, service.runs()]).toEqual([1, 1])
  })

  test.each(sent)('behind, and %s: the compressed bytes are the answer', async (_name, answer) => {
    const service = await start({ behind: compress(), answer })
    const first = await replaysAlike(service, { headers: { ...json, 'accept-encoding': 'gzip' } }, ['content-encoding', 'vary'])
    expect(first.lines('content-encoding')).toEqual(['gzip'])
    expect(decoded(first)).toContain(large)
  })

  test('in front of an answer over the cap: it is whole', async () => {
    const service = await start(
      { before: compress(), answer: (ctx) => Object.assign(ctx, { type: 'text', body: Readable.from(Array(50).fill(large)) }) },
      { maxAnswerBytes: 100_000 },
    )
    const answered = await service.send({ headers: { ...json, 'accept-encoding': 'gzip' } })
    expect(decoded(answered) === large.repeat(50)).toBe(true)
    expect([(await service.send()).status, service.runs()]).toEqual([410, 1])
  })
})

describe('@koa/bodyparser', () => {
  const parser = () => bodyParser({ enableTypes: ['json', 'form', 'text'] })
  const bodies: [type: string, sent: string, parsed: unknown][] = [
    ['application/json', '{"item":"tea"}', { item: 'tea' }],
    ['application/x-www-form-urlencoded', 'item[kind]=tea', { item: { kind: 'tea' } }],
    ['text/plain', 'tea', 'tea'],
  ]
  const echo = (ctx: Context) => Object.assign(ctx, { body: JSON.stringify(ctx.request.body ?? null) })

  describe.each(['before', 'behind'] as const)('%s', (where) => {
    test.each(bodies)('%s', async (type, sent, parsed) => {
      const service = await start({ [where]: parser(), answer: echo })
      const request = { headers: { 'content-type': type }, body: sent }
      const first = await replaysAlike(service, request)
      expect(JSON.parse(first.body.toString())).toEqual(parsed)
      expect((await service.send({ ...request, body: sent.replace('tea', 'mud') })).status).toBe(422)
    })

    test('big integers are told apart', async () => {
      const service = await start({ [where]: parser(), answer: echo })
      await replaysAlike(service, { body: '{"id":9007199254740993}' })
      expect((await service.send({ body: '{"id":9007199254740992}' })).status).toBe(422)
    })

    test('what it does not parse is there for the handler', async () => {
      const service = await start({ [where]: parser(), answer: async (ctx) => Object.assign(ctx, { body: await text(ctx.req) }) })
      const first = await replaysAlike(service, { headers: { 'content-type': 'application/octet-stream' }, body: 'tea' })
      expect(first.body.toString()).toBe('tea')
    })

    test('what is no JSON is a 400, and nothing runs', async () => {
      const service = await start({ [where]: parser(), answer: echo })
      expect([(await service.send({ body: '{"item":' })).status, service.runs()]).toEqual([400, 0])
    })
  })
})

test('a parser in front that keeps no bytes: raw_body_gone is an error of the application, and nothing runs', async () => {
  const parse: Middleware = async (ctx, next) => {
    Object.assign(ctx.request, { body: JSON.parse(await text(ctx.req)) })
    await next()
  }
  const service = await start({ before: parse })
  expect([(await service.send()).status, service.runs()]).toEqual([500, 0])
  expect(service.errors).toMatchObject([{ code: 'raw_body_gone' }])

  const parsed = await start({ before: parse, options: { fingerprint: 'parsed' } })
  await replaysAlike(parsed)
  expect((await parsed.send({ body: '{"item":"mud"}' })).status).toBe(422)
})

test('headers that are set in front, before and after, are fresh at each replay', async () => {
  let number = 0
  const service = await start({
    async before(ctx, next) {
      number += 1
      ctx.set('x-before', String(number))
      await next()
      ctx.set('x-after', String(number))
    },
  })
  const answers = [await service.send(), await service.send(), await service.send({ body: '{}' })]
  expect(answers.map(({ lines }) => [lines('x-before'), lines('x-after')])).toEqual([
    [['1'], ['1']],
    [['2'], ['2']],
    [['3'], ['3']],
  ])
})

test('stripe: a Request-Id that is set in front is the true one: replays have their own, and tell the first', async () => {
  let number = 0
  const service = await start({
    before(ctx, next) {
      number += 1
      ctx.set('Request-Id', `req_${number}`)
      return next()
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

test('headers that are set behind, before and after, are part of the answer', async () => {
  let number = 0
  const service = await start({
    async behind(ctx, next) {
      number += 1
      ctx.set('x-before', String(number))
      await next()
      ctx.set('x-after', String(number))
    },
  })
  const first = await replaysAlike(service, {}, ['x-before', 'x-after'])
  expect([first.lines('x-before'), first.lines('x-after')]).toEqual([['1'], ['1']])
})

test('cookies are set by the first answer only', async () => {
  const service = await start({ answer: (ctx) => ctx.cookies.set('pot', '1') && Object.assign(ctx, { body: 'tea' }) })
  expect((await replaysAlike(service)).lines('set-cookie').length).toBe(1)
  expect((await service.send()).lines('set-cookie')).toEqual([])
})

test('mounted twice, it protects once; one that lets a request pass leaves it to the next one', async () => {
  const service = await startKoa(database, (app, { protect, ran }) => {
    app.use(protect({ key: header('X-Other-Key') }))
    app.use(protect())
    app.use(protect({ afterFailure: 'park' }))
    app.use((ctx) => {
      ctx.body = `run ${ran()}`
    })
  })
  await replaysAlike(service)
  expect((await service.send()).lines('idempotent-replayed')).toEqual(['true'])
})

test('the path that the client sent counts, whatever became of it', async () => {
  const service = await start({
    before: (ctx, next) => {
      ctx.path = ctx.path.replace(/^\/(teas|coffees)/, '')
      return next()
    },
    answer: (ctx, run) => Object.assign(ctx, { body: `run ${run} of ${ctx.path}` }),
  })
  const bodies = []
  for (const path of ['/teas/work', '/coffees/work', '/teas/work']) bodies.push((await service.send({ path })).body.toString())
  expect(bodies).toEqual(['run 1 of /work', 'run 2 of /work', 'run 1 of /work'])
})

test('ctx.respond = false in front, for an answer of its own', async () => {
  const service = await start({
    async before(ctx, next) {
      await next()
      ctx.respond = false
      ctx.res.writeHead(ctx.status, { 'x-own': '1' }).end(ctx.body)
    },
  })
  expect((await replaysAlike(service, {}, ['x-own'])).body.toString()).toBe('run 1')
})
