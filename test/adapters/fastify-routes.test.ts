import fastify, { type FastifyInstance } from 'fastify'
import { expect, test } from 'vitest'
import { idempotency, serve } from '../../src/adapters/fastify.js'
import { reply as answerWith } from '../../src/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { complaints, start, startProtected, tenant } from './fastify-app.js'
import { isReplay, jsonOf, openService, type Service, textOf } from './service.js'

const database = useDatabase()

/** A handler that says how often it ran. */
function counting(): () => Promise<{ runs: number }> {
  let runs = 0
  return async () => ({ runs: ++runs })
}

const protect = (app: FastifyInstance, { once }: Service) => app.register(idempotency(once, { tenant, afterFailure: 'rerun' }))

test('config.idempotency: false leaves a route alone, with its body', async () => {
  const service = await startProtected(database, (app) => {
    app.post('/work', { config: { idempotency: false } }, async ({ body }) => body)
  })
  const [first, again] = await service.twice()
  expect([jsonOf(first), jsonOf(again), isReplay(again)]).toEqual([{ item: 'tea' }, { item: 'tea' }, false])
  expect(service.events).toEqual([])
})

test('config.idempotency has other options for a route, on top of the common ones', async () => {
  const service = await startProtected(database, (app) => {
    app.post('/parked', { config: { idempotency: { afterFailure: 'park' } } }, async (_request, reply) => reply.code(500).send('oh'))
    app.put('/work', { config: { idempotency: { methods: ['PUT'], required: true } } }, counting())
  })
  const [, parked] = await service.twice({ path: '/parked' })
  expect([parked.status, jsonOf(parked).code]).toEqual([500, 'outcome_unknown'])
  expect(isReplay((await service.twice({ method: 'PUT' }))[1])).toBe(true)
  expect(jsonOf(await service.send({ method: 'PUT', key: null })).code).toBe('key_missing')
})

test.each([true, null, undefined, 'yes'])('config.idempotency: %s says nothing else than the plugin', async (said) => {
  const service = await startProtected(database, (app) => {
    app.post('/work', { config: { idempotency: said as never } }, counting())
  })
  expect(isReplay((await service.twice())[1])).toBe(true)
})

test('a wrong option of a route is an error at start', async () => {
  const { once } = await openService(database)
  const app = fastify()
  await app.register(idempotency(once, { tenant, afterFailure: 'rerun' }))
  expect(() => app.post('/work', { config: { idempotency: { afterFailure: 'perhaps' as 'park' } } }, counting())).toThrow(
    expect.objectContaining({ code: 'option_invalid' }),
  )
  await app.close()
})

test('the options of a route count, too, that was there before the plugin was loaded', async () => {
  const service = await start(database, (app, { once }) => {
    // Not awaited: Fastify loads it when the application gets ready.
    app.register(idempotency(once, { tenant, afterFailure: 'rerun' }))
    app.post('/work', { config: { idempotency: { afterFailure: 'park' } } }, async (_request, reply) => reply.code(500).send('oh'))
    app.post('/open', { config: { idempotency: false } }, counting())
    app.post('/plain', counting())
  })
  const [first, again] = await service.twice()
  expect([first.status, jsonOf(again).code]).toEqual([500, 'outcome_unknown'])
  expect(jsonOf((await service.twice({ path: '/open' }))[1])).toEqual({ runs: 2 })
  expect(isReplay((await service.twice({ path: '/plain' }))[1])).toBe(true)
})

test('registered in a child, it protects the child only', async () => {
  const service = await start(database, async (app, opened) => {
    app.post('/parent', counting())
    await app.register(async (child) => {
      await protect(child, opened)
      child.post('/child', counting())
      await child.register(async (grandchild) => void grandchild.post('/grandchild', counting()))
    })
    app.register(async (sibling) => void sibling.post('/sibling', counting()))
  })
  const runsTwice = async (path: string) => jsonOf((await service.twice({ path }))[1]).runs === 2
  expect(await Promise.all(['/parent', '/child', '/grandchild', '/sibling'].map(runsTwice))).toEqual([true, false, false, true])
})

test('registered twice, it does its work once', async () => {
  const service = await start(database, async (app, opened) => {
    await protect(app, opened)
    await protect(app, opened)
    await app.register(async (child) => {
      await protect(child, opened)
      child.post('/work', async ({ body }) => body)
    })
  })
  const [first, again] = await service.twice()
  expect([jsonOf(first), isReplay(again)]).toEqual([{ item: 'tea' }, true])
  expect(service.events).toEqual(['executing', 'finished', 'replayed'])
  expect(complaints(service)).toEqual([])
})

test('a prefix is part of the path, and so of the key', async () => {
  const work = counting()
  const service = await startProtected(database, (app) => {
    for (const prefix of ['/v1', '/v2']) app.register(async (child) => void child.post('/work', work), { prefix })
  })
  await service.twice({ path: '/v1/work' })
  expect(await service.stateOf('POST /v1/work')).toBe('complete')
  expect(jsonOf(await service.send({ path: '/v2/work' }))).toEqual({ runs: 2 })
})

test('a path that rewriteUrl changes is, for the key, as the client sent it', async () => {
  const service = await startProtected(database, (app) => void app.post('/work', counting()), {
    fastify: { rewriteUrl: ({ url = '' }) => url.replace(/^\/v\d/, '') },
  })
  const [first, again] = await service.twice({ path: '/v1/work' })
  expect([jsonOf(first), isReplay(again)]).toEqual([{ runs: 1 }, true])
  expect(await service.stateOf('POST /v1/work')).toBe('complete')
  expect(jsonOf(await service.send({ path: '/v2/work' }))).toEqual({ runs: 2 })
})

test('a path where there is no route: its 404 is not stored, and the key is free for the deploy that brings the route', async () => {
  const service = await startProtected(database, (app) => {
    app.setNotFoundHandler(async (_request, reply) => reply.code(404).send('nothing here'))
  })
  const [first, again] = await service.twice()
  expect([first.status, textOf(first), again.status, isReplay(again)]).toEqual([404, 'nothing here', 404, false])
  expect(service.events).toEqual([])
})

test('reply.callNotFound() in a handler is its answer', async () => {
  const service = await startProtected(database, (app) => {
    app.post('/work', (_request, reply) => void reply.callNotFound())
  })
  const [first, again] = await service.twice()
  expect([first.status, again.status, isReplay(again)]).toEqual([404, 404, true])
  expect(again.body).toEqual(first.body)
})

test('GET and the HEAD route that Fastify makes of it are untouched', async () => {
  const work = counting()
  const service = await startProtected(database, (app) => {
    app.get('/work', work)
  })
  const bare = { headers: {}, body: null }
  expect((await service.send({ ...bare, method: 'HEAD' })).body.length).toBe(0)
  expect(jsonOf(await service.send({ ...bare, method: 'GET' }))).toEqual({ runs: 2 })
  expect(service.events).toEqual([])
})

test('HEAD of a route that is told to protect it is replayed without a body', async () => {
  const work = counting()
  const service = await startProtected(database, (app) => {
    app.head('/work', { config: { idempotency: { methods: ['HEAD'] } } }, async (_request, reply) => reply.send({ ...(await work()) }))
  })
  const [first, again] = await service.twice({ method: 'HEAD', headers: {}, body: null })
  expect([first.status, again.status, isReplay(again), again.body.length]).toEqual([200, 200, true, 0])
  expect(again.lines('content-type')).toEqual(first.lines('content-type'))
})

test('app.inject() works, and its answers are those of the socket', async () => {
  const service = await startProtected(database, (app) => {
    app.post('/work', async ({ body }, reply) => reply.code(201).send({ echo: body }))
  })
  const inject = (payload: object) =>
    service.app.inject({
      method: 'POST',
      url: '/work',
      headers: { 'idempotency-key': '"key-1"', 'x-tenant': service.tenant },
      payload,
    })
  const first = await inject({ item: 'tea' })
  const again = await inject({ item: 'tea' })
  expect([first.statusCode, first.json(), first.headers['idempotent-replayed']]).toEqual([201, { echo: { item: 'tea' } }, undefined])
  expect([again.statusCode, again.body, again.headers['idempotent-replayed']]).toEqual([201, first.body, 'true'])
  expect((await inject({ item: 'coffee' })).statusCode).toBe(422)
  expect(isReplay(await service.send())).toBe(true)
})

test('serve() is spread into the options of a route, with a schema and hooks of its own', async () => {
  const seen: string[] = []
  const service = await start(database, (app, { once }) => {
    const createOrder = once.operation('fastify.orders', {}, async (run, input) =>
      answerWith(201, { input, attempt: run.attempt }, { location: '/orders/1' }),
    )
    const body = { type: 'object', required: ['quantity'], properties: { quantity: { type: 'integer' } } } as const
    app.post('/work', { ...serve(createOrder, { tenant }), schema: { body }, onRequest: async () => void seen.push('onRequest') })
    app.addHook('onResponse', async (_request, reply) => void seen.push(`onResponse ${reply.statusCode}`))
  })
  const refused = await service.send({ body: '{"quantity":"many"}' })
  expect([refused.status, jsonOf(refused).code]).toEqual([400, 'FST_ERR_VALIDATION'])
  const [first, again] = await service.twice({ body: '{"quantity":2}' })
  expect([first.status, jsonOf(first), first.lines('location')]).toEqual([201, { input: { quantity: 2 }, attempt: 1 }, ['/orders/1']])
  expect([again.status, again.body, isReplay(again)]).toEqual([201, first.body, true])
  expect((await service.send({ body: '{"quantity":3}' })).status).toBe(422)
  expect(complaints(service)).toEqual([])
  expect(seen.filter((hook) => hook === 'onRequest').length).toBe(4)
})

test('serve() behind the plugin protects itself: the plugin leaves it alone', async () => {
  const service = await startProtected(database, (app, { once }) => {
    const createOrder = once.operation('fastify.behind', {}, async () => answerWith(201, { ok: true }))
    app.post('/work', serve(createOrder, { tenant }))
  })
  const [first, again] = await service.twice()
  expect([first.status, again.status, isReplay(again)]).toEqual([201, 201, true])
  expect(await service.stateOf()).toBe(undefined)
  expect(await service.stateOf('fastify.behind')).toBe('complete')
})

test('what an operation throws goes through setErrorHandler, and a retry resumes', async () => {
  const service = await start(database, (app, { once }) => {
    app.setErrorHandler((error: Error, _request, reply) => reply.code(502).send({ told: error.message }))
    const createOrder = once.operation('fastify.throws', {}, async (run) => {
      if (run.attempt === 1) throw new Error('not yet')
      return answerWith(201, { attempt: run.attempt })
    })
    app.post('/work', serve(createOrder, { tenant }))
  })
  const [first, again] = await service.twice()
  expect([first.status, jsonOf(first), again.status, jsonOf(again)]).toEqual([502, { told: 'not yet' }, 201, { attempt: 2 }])
})
