import { IncomingMessage, ServerResponse } from 'node:http'
import type { RequestHandler } from 'express'
import { describe, expect, test } from 'vitest'
import { header } from '../../src/adapters/express.js'
import { Gate } from '../../src/testing/adapter-cases/adapter-case.js'
import { rawConnection } from '../../src/testing/adapter-cases/client.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { frameworks, startExpress } from './express-service.js'
import { replaysAlike, useQuietProcess } from './node-service.js'

const database = useDatabase()
useQuietProcess()

describe.each(frameworks)('%s', (_, framework) => {
  test('mounted twice, it protects once', async () => {
    const service = await startExpress(framework, database, (app, { protect, ran }) => {
      app.use(protect())
      app.post('/work', protect({ afterFailure: 'park' }), (_request, response) => void response.send(`run ${ran()}`))
    })
    await replaysAlike(service)
    expect((await service.send()).lines('idempotent-replayed')).toEqual(['true'])
  })

  test('a tenant that cannot be found, with nothing thrown to say why: the handler does not run', async () => {
    const service = await startExpress(framework, database, (app, { protect, ran, keepErrors }) => {
      app.use(protect({ tenant: () => Promise.reject(undefined) }))
      app.post('/work', (_request, response) => void response.send(`run ${ran()}`))
      app.use(keepErrors)
    })
    expect((await service.send()).status).toBe(500)
    expect(service.runs()).toBe(0)
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

  test('behind it a mounted application, which gives requests and responses prototypes of its own', async () => {
    const service = await startExpress(framework, database, (app, { protect, ran }) => {
      const mounted = framework()
      mounted.use(framework.json())
      mounted.post('/work', (request, response) => void response.status(201).json({ run: ran(), body: request.body }))
      app.use(protect())
      app.use('/mounted', mounted)
    })
    const first = await replaysAlike(service, { path: '/mounted/work', body: '{"item":"tea"}' })
    expect(JSON.parse(first.body.toString())).toEqual({ run: 1, body: { item: 'tea' } })
  })

  test('two requests that are sent together: the second one stays held when the first is answered', async () => {
    const gates = [new Gate(), new Gate()]
    const begun = [new Gate(), new Gate()]
    const service = await startExpress(framework, database, (app, { protect, ran }) => {
      app.use(protect())
      app.post('/work', async (request, response) => {
        const which = request.get('idempotency-key') === 'second' ? 1 : 0
        begun[which]?.open()
        await gates[which]?.opened
        response.send(`run ${ran()}`)
      })
    })
    const socket = await rawConnection(service.url)
    const head = (key: string) => `POST /work HTTP/1.1\r\nHost: a\r\nX-Tenant: ${service.tenant}\r\nIdempotency-Key: ${key}\r\n`
    socket.write(['first', 'second'].map((key) => `${head(key)}Content-Length: 0\r\n\r\n`).join(''))
    await Promise.all(begun.map(({ opened }) => opened))
    gates[0]?.open()
    await waitUntil('the first one is answered', () => socket.received().includes('run 1'))
    gates[1]?.open()
    await waitUntil('the second one is answered', () => socket.received().includes('run 2'))
    socket.write(`${head('second')}Content-Length: 0\r\n\r\n`)
    await waitUntil('it is replayed', () => socket.received().toLowerCase().includes('idempotent-replayed: true'))
    expect(service.runs()).toBe(2)
    socket.destroy()
  })

  test.each(['a router', 'a route', 'a function'])('behind it an application of another copy of Express, on %s', async (where) => {
    const [, Other] = frameworks.find(([, each]) => each !== framework) as (typeof frameworks)[number]
    const service = await startExpress(framework, database, (app, { protect, ran }) => {
      // It gives requests and responses prototypes that have nothing to do with those that they had.
      const other = Other()
      other.use(Other.json())
      other.post('/other/work', (request, response) => void response.status(201).json({ run: ran(), body: request.body }))
      app.use(protect())
      if (where === 'a router') app.use(framework.Router().use(other))
      else if (where === 'a route') app.post('/other/work', other)
      else app.use((request, response, next) => void other(request, response, next))
    })
    const first = await replaysAlike(service, { path: '/other/work', body: '{"item":"tea"}' })
    expect(JSON.parse(first.body.toString())).toEqual({ run: 1, body: { item: 'tea' } })
    expect(await service.keyState('/other/work')).toBe('complete')
  })

  test('a request inside of the request, made on its socket, is one of its own', async () => {
    const service = await startExpress(framework, database, (app, { protect, ran }) => {
      app.use(protect())
      app.post('/work', framework.json(), (request, response) => {
        const inner = new IncomingMessage(request.socket)
        Object.assign(inner, { method: 'POST', url: '/inner', headers: { 'content-type': 'application/json', 'content-length': '7' } })
        inner.push('{"a":1}')
        inner.push(null)
        const answered = new ServerResponse(inner)
        answered.end = (chunk: unknown) => {
          response.json({ run: ran(), inner: String(chunk) })
          return answered
        }
        app(inner as never, answered as never)
      })
      app.post('/inner', framework.json(), (request, response) => void response.send(JSON.stringify(request.body)))
    })
    const first = await replaysAlike(service)
    expect(JSON.parse(first.body.toString())).toEqual({ run: 1, inner: '{"a":1}' })
  })

  test.each(['in front', 'behind'])(
    'another copy of the package, with a layer of its own %s: each protects what is behind it',
    async (where) => {
      const { idempotency } = await import('oncekey/express')
      const service = await startExpress(framework, database, (app, { protect, once, options, ran }) => {
        const foreign = idempotency(once as never, { ...options, scope: { name: 'foreign' }, key: header('X-Other-Key') }) as RequestHandler
        app.use(...(where === 'in front' ? [foreign, protect()] : [protect(), foreign]), framework.json())
        app.post('/work', (request, response) => void response.status(201).json({ run: ran(), body: request.body }))
      })
      await replaysAlike(service, { headers: { 'content-type': 'application/json', 'x-other-key': 'other' } })
      // What one of them does not know, the other one does.
      const known = await service.send({ key: '"new"', headers: { 'content-type': 'application/json', 'x-other-key': 'other' } })
      expect(JSON.parse(known.body.toString())).toEqual({ run: 1, body: { item: 'tea' } })
      expect(service.runs()).toBe(1)
    },
  )

  test('methods that a handler took off its response do nothing once another answer was sent', async () => {
    let late: Promise<unknown> | undefined
    const service = await startExpress(framework, database, (app, { protect, ran }) => {
      app.use(protect({ maxRun: 50, lease: '10s' }))
      app.post('/work', (_request, response) => {
        ran()
        const { write, end, writeHead } = response
        late = new Promise((resolve) => response.once('finish', resolve)).then(() => {
          writeHead.call(response, 200)
          write.call(response, 'too late', 'utf8')
          end.call(response, 'too late', 'utf8')
        })
      })
    })
    expect((await service.send()).status).toBe(503)
    await late
    expect((await service.send({ key: '"other"', path: '/nowhere' })).status).toBe(404)
  })

  test('who writes to a response that was replayed is told by Node that it is out, as without the layer', async () => {
    const told: unknown[] = []
    const service = await startExpress(framework, database, (app, { protect, ran }) => {
      app.use((_request, response, next) => {
        const writeLate = () => {
          try {
            response.setHeader('x-late', 'yes')
          } catch (error) {
            told.push((error as { code?: string }).code)
          }
        }
        response.once('close', () => setImmediate(writeLate))
        next()
      })
      app.use(protect())
      app.post('/work', (_request, response) => void response.send(`run ${ran()}`))
    })
    await replaysAlike(service)
    await waitUntil('both were told', () => told.length === 2)
    expect(told).toEqual(['ERR_HTTP_HEADERS_SENT', 'ERR_HTTP_HEADERS_SENT'])
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
