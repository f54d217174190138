import { AsyncLocalStorage } from 'node:async_hooks'
import { gunzipSync } from 'node:zlib'
import compress from '@fastify/compress'
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify'
import { expect, test } from 'vitest'
import { idempotency, runOf } from '../../src/adapters/fastify.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { complaints, start, startProtected, tenant } from './fastify-app.js'
import { isReplay, jsonOf, type Service, textOf } from './service.js'

const database = useDatabase()

const protect = (app: FastifyInstance, { once }: Service) => app.register(idempotency(once, { tenant, afterFailure: 'rerun' }))

const authenticate = async (request: FastifyRequest, reply: FastifyReply) => {
  if (request.headers.authorization !== 'good') return reply.code(401).send({ error: 'who are you?' })
}

test.each<[string, (app: FastifyInstance, service: Service, work: RouteHandlerMethod) => unknown]>([
  [
    'a hook that was added before it',
    async (app, service, work) => {
      app.addHook('preHandler', authenticate)
      await protect(app, service)
      app.post('/work', work)
    },
  ],
  [
    'a hook that was added behind it',
    async (app, service, work) => {
      await protect(app, service)
      app.addHook('preHandler', authenticate)
      app.post('/work', work)
    },
  ],
  [
    'a hook of the route',
    async (app, service, work) => {
      await protect(app, service)
      app.post('/work', { preHandler: authenticate }, work)
    },
  ],
  [
    'the hooks of a route in a child',
    async (app, service, work) => {
      await protect(app, service)
      await app.register(async (child) => void child.post('/work', { preHandler: [async () => {}, authenticate] }, work))
    },
  ],
  [
    'a hook that was added before it, where the route was there before it was loaded',
    (app, service, work) => {
      app.addHook('preHandler', authenticate)
      void protect(app, service)
      app.post('/work', work)
    },
  ],
])('authentication by %s: its 401 is not stored, nor is a stored answer shown to whom it refuses', async (_, build) => {
  let runs = 0
  const service = await start(database, (app, opened) => build(app, opened, async () => ({ runs: ++runs })))
  const headers = { 'content-type': 'application/json', authorization: 'good' }
  expect((await service.send()).status).toBe(401)
  expect(service.events).toEqual([])
  expect((await service.send({ headers })).status).toBe(200)
  const stranger = await service.send()
  expect([stranger.status, isReplay(stranger)]).toEqual([401, false])
  expect([isReplay(await service.send({ headers })), runs]).toEqual([true, 1])
})

test.each(['onRequest', 'preParsing', 'preValidation', 'preHandler'] as const)('a refusal of an %s hook is not stored', async (name) => {
  let refuse = true
  const service = await startProtected(database, (app) => {
    app.addHook(name, async (_request: unknown, reply: { code(code: number): { send(text: string): unknown } }) => {
      if (refuse) return reply.code(429).send('slow down')
    })
    app.post('/work', async () => 'done')
  })
  expect((await service.send()).status).toBe(429)
  expect(await service.stateOf()).toBe(undefined)
  refuse = false
  expect(textOf(await service.send())).toBe('done')
})

test('an error of a preHandler hook is none of the handler: the key stays free', async () => {
  let hooks = 0
  const service = await startProtected(database, (app) => {
    app.addHook('preHandler', async () => {
      hooks += 1
      if (hooks === 1) throw new Error('not yet')
    })
    app.post('/work', async () => 'done')
  })
  expect((await service.send()).status).toBe(500)
  expect(service.events).toEqual([])
  expect(textOf(await service.send())).toBe('done')
})

test('where the route was there before the plugin was loaded, a hook behind it is a part of the handler', async () => {
  let hooks = 0
  const service = await start(database, (app, opened) => {
    void protect(app, opened)
    app.post('/work', {
      preHandler: async () => {
        hooks += 1
        if (hooks === 1) throw new Error('not yet')
      },
      handler: async () => 'done',
    })
  })
  expect((await service.send()).status).toBe(500)
  expect(service.events).toEqual(['executing', 'released'])
  expect(textOf(await service.send())).toBe('done')
})

test('a tenant that cannot be told goes through setErrorHandler, and nothing runs', async () => {
  let caller: string | undefined
  const service = await start(database, async (app, { once, tenant: known }) => {
    app.setErrorHandler((error: Error & { code?: string }, _request, reply) => reply.code(500).send({ told: error.code ?? error.message }))
    const whose = () => {
      if (caller === 'throws') throw new Error('no session')
      return caller === 'known' ? known : (undefined as unknown as string)
    }
    await app.register(idempotency(once, { tenant: whose, afterFailure: 'park' }))
    app.post('/work', async () => 'done')
  })
  expect(jsonOf(await service.send())).toEqual({ told: 'tenant_invalid' })
  caller = 'throws'
  expect(jsonOf(await service.send())).toEqual({ told: 'no session' })
  expect(service.events).toEqual([])
  caller = 'known'
  expect(textOf(await service.send())).toBe('done')
})

test('an error that the handler throws goes through setErrorHandler: a 4xx is stored, a 5xx is as afterFailure says', async () => {
  let runs = 0
  const service = await startProtected(database, (app) => {
    app.setErrorHandler((error: Error & { statusCode?: number }, _request, reply) =>
      reply.code(error.statusCode ?? 500).send({ told: error.message }),
    )
    app.post('/declined', async () => {
      runs += 1
      throw Object.assign(new Error('card declined'), { statusCode: 402 })
    })
    app.post('/broken', () => {
      runs += 1
      throw new Error('no provider')
    })
  })
  const [declined, again] = await service.twice({ path: '/declined' })
  expect([declined.status, jsonOf(declined), jsonOf(again), isReplay(again)]).toEqual([
    402,
    { told: 'card declined' },
    { told: 'card declined' },
    true,
  ])
  const [broken, rerun] = await service.twice({ path: '/broken' })
  expect([broken.status, jsonOf(broken), rerun.status, isReplay(rerun), runs]).toEqual([500, { told: 'no provider' }, 500, false, 3])
})

test('an error in onSend becomes a 500 of Fastify, and ends the attempt', async () => {
  let runs = 0
  const service = await startProtected(database, (app) => {
    app.addHook('onSend', async (_request, reply, payload) => {
      if (runs === 1 && reply.statusCode === 200) throw new Error('cannot sign')
      return payload
    })
    app.post('/work', async () => `run ${++runs}`)
  })
  expect((await service.send()).status).toBe(500)
  expect(textOf(await service.send())).toBe('run 2')
})

test('onSend hooks shape the answer that is stored, and do not run for a replay; onResponse hooks run for both', async () => {
  const ran: string[] = []
  const service = await startProtected(database, (app) => {
    app.addHook('preSerialization', async (_request, _reply, payload: object) => ({ ...payload, stamped: true }))
    app.addHook('onSend', async (_request, reply, payload) => {
      ran.push('onSend')
      reply.header('x-signed', 'yes')
      return `${payload}\n`
    })
    app.addHook('onResponse', async (_request, reply) => void ran.push(`onResponse ${reply.statusCode}`))
    app.post('/work', async (_request, reply) => reply.code(201).send({ ok: true }))
  })
  const [first, again] = await service.twice()
  for (const answered of [first, again]) {
    expect([textOf(answered), answered.lines('x-signed')]).toEqual(['{"ok":true,"stamped":true}\n', ['yes']])
  }
  await service.send({ body: '{"item":"coffee"}' })
  await waitUntil('all hooks ran', () => ran.length === 4)
  expect(ran).toEqual(['onSend', 'onResponse 201', 'onResponse 201', 'onResponse 422'])
})

test('headers that hooks in front of it set are fresh in a replay, and in what the layer itself answers', async () => {
  let requests = 0
  const service = await start(database, async (app, opened) => {
    app.addHook('onRequest', async (request, reply) => {
      requests += 1
      reply.header('access-control-allow-origin', request.headers.origin ?? 'none').header('x-request-number', requests)
      reply.raw.setHeader('x-raw-number', requests)
    })
    await protect(app, opened)
    app.post('/work', async (_request, reply) => reply.header('x-custom', 'kept').send('done'))
  })
  const from = (origin: string) => ({ headers: { 'content-type': 'application/json', origin } })
  const seen = async (request: Parameters<typeof service.send>[0]) => {
    const { status, lines } = await service.send(request)
    const names = ['access-control-allow-origin', 'x-request-number', 'x-raw-number', 'x-custom']
    return [status, ...names.map((name) => lines(name).join())]
  }
  expect(await seen(from('https://a.example'))).toEqual([200, 'https://a.example', '1', '1', 'kept'])
  expect(await seen(from('https://b.example'))).toEqual([200, 'https://b.example', '2', '2', 'kept'])
  expect(await seen({ ...from('https://c.example'), body: '{}' })).toEqual([422, 'https://c.example', '3', '3', ''])
})

test.each(['before', 'behind'])('@fastify/compress registered %s it: the bytes are stored as they were sent', async (where) => {
  const service = await start(database, async (app, opened) => {
    if (where === 'before') await app.register(compress, { threshold: 0 })
    await protect(app, opened)
    if (where === 'behind') await app.register(compress, { threshold: 0 })
    app.post('/work', async () => ({ text: 'x'.repeat(5_000) }))
  })
  const headers = { 'content-type': 'application/json', 'accept-encoding': 'gzip' }
  const [first, again] = await service.twice({ headers })
  expect(JSON.parse(gunzipSync(first.body).toString()).text.length).toBe(5_000)
  expect(again.body).toEqual(first.body)
  for (const { lines } of [first, again]) expect([lines('content-encoding'), lines('vary')]).toEqual([['gzip'], ['accept-encoding']])
  expect(isReplay(again)).toBe(true)
  // Whoever asks in another way gets the stored bytes too.
  const plain = await service.send()
  expect([plain.lines('content-encoding'), plain.body]).toEqual([['gzip'], first.body])
  expect(complaints(service)).toEqual([])
})

test('a replay and a refusal leave nothing in the log but the request', async () => {
  const service = await startProtected(database, (app) => {
    app.post('/work', async () => ({ ok: true }))
  })
  await service.twice()
  await service.send({ body: '{}' })
  await service.send({ key: '""' })
  await waitUntil('four requests are complete', () => service.log.filter(({ msg }) => msg === 'request completed').length === 4)
  expect(complaints(service)).toEqual([])
  expect(new Set(service.log.map(({ msg }) => msg?.replace(/ at .*/, '')))).toEqual(
    new Set(['Server listening', 'incoming request', 'request completed']),
  )
})

test('the handler is in the async context of the hooks before it', async () => {
  const storage = new AsyncLocalStorage<string>()
  const service = await start(database, async (app, opened) => {
    app.addHook('onRequest', (request, _reply, done) => storage.run(`of ${request.headers['x-name']}`, done))
    await protect(app, opened)
    app.post('/work', async () => storage.getStore())
  })
  const headers = { 'content-type': 'application/json', 'x-name': 'the first' }
  expect(textOf(await service.send({ headers }))).toBe('of the first')
})

test('runOf(once, request) is the run: its attempt, its key, and phases that are not done again', async () => {
  let phases = 0
  const service = await startProtected(database, (app, { once }) => {
    app.post('/work', async (request, reply) => {
      const run = runOf(once, request)
      if (!run) return { run: 'none' }
      const made = await run.phase('made', () => ({ number: ++phases }))
      if (run.attempt === 1) return reply.code(503).send('again')
      return { ...made, attempt: run.attempt, key: run.idempotencyKey, raw: runOf(once, request.raw) === run }
    })
  })
  expect((await service.send()).status).toBe(503)
  expect(jsonOf(await service.send())).toEqual({ number: 1, attempt: 2, key: 'key-1', raw: true })
  expect(phases).toBe(1)
  expect(jsonOf(await service.send({ key: null }))).toEqual({ run: 'none' })
})

test('a tenant that cannot be found, with nothing thrown to say why: the handler does not run', async () => {
  let runs = 0
  const service = await startProtected(database, (app) => void app.post('/work', async () => ({ runs: ++runs })), {
    options: { tenant: () => Promise.reject(undefined) },
  })

  expect((await service.send()).status).toBe(500)
  expect(runs).toBe(0)
})
