import { gunzipSync } from 'node:zlib'
import { type Context, Hono, type MiddlewareHandler } from 'hono'
import { compress } from 'hono/compress'
import { cors } from 'hono/cors'
import { requestId } from 'hono/request-id'
import { timeout } from 'hono/timeout'
import { describe, expect, test, vi } from 'vitest'
import { runOf, serve } from '../../src/adapters/hono.js'
import { reply } from '../../src/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { layer, openHono, tenant } from './hono-bench.js'

const database = useDatabase()

/** Something that is another one at each request. */
function counter() {
  let count = 0
  return () => {
    count += 1
    return String(count)
  }
}

describe('middleware in front of the layer', () => {
  test.each<[string, (c: Context, value: string) => void]>([
    ['c.header()', (c, value) => c.header('x-before', value)],
    ['c.res.headers', (c, value) => c.res.headers.set('x-before', value)],
  ])('what it sets with %s is fresh on a replay', async (_, set) => {
    const next = counter()
    const { send } = await openHono(database, (app, { protect }) => {
      app.use(async (c, go) => {
        set(c, next())
        await go()
      })
      app.use(protect())
      app.post('/orders', (c) => c.text('done', 200, { 'x-own': 'kept' }))
    })
    for (const value of ['1', '2']) {
      const { text, headers } = await send()
      expect([text, headers['x-before'], headers['x-own']]).toEqual(['done', value, 'kept'])
    }
    expect((await send({ body: '{"item":"gin"}' })).headers['x-before']).toBe('3')
  })

  test('a header that the handler overwrites is the handler’s, at first and on a replay', async () => {
    const { sendTwice } = await openHono(database, (app, { protect }) => {
      app.use(async (c, go) => {
        c.header('cache-control', 'no-store')
        await go()
      })
      app.use(protect())
      app.post('/orders', () => new Response('done', { headers: { 'cache-control': 'max-age=5' } }))
    })
    expect((await sendTwice()).headers['cache-control']).toBe('max-age=5')
  })

  test('what it does to c.res afterwards, it does to a replay too', async () => {
    const next = counter()
    const { send, runs } = await openHono(database, (app, { protect, count }) => {
      app.use(async (c, go) => {
        await go()
        c.header('x-after', next())
        c.res = new Response(`<${await c.res.text()}>`, c.res)
      })
      app.use(protect())
      app.post('/orders', (c) => c.text(`run ${count()}`, 201))
    })
    for (const value of ['1', '2']) {
      const { status, text, headers } = await send()
      expect([status, text, headers['x-after']]).toEqual([201, '<run 1>', value])
    }
    expect(runs()).toBe(1)
  })

  test('its request id is of each request', async () => {
    const { send } = await openHono(database, (app, { protect }) => {
      app.use(requestId(), protect())
      app.post('/orders', (c) => c.text('done'))
    })
    const [first, again] = [await send(), await send()]
    expect(first.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/)
    expect(again.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/)
    expect(again.headers['x-request-id']).not.toBe(first.headers['x-request-id'])
  })
})

test('middleware behind the layer: what it does to c.res is part of the answer', async () => {
  const next = counter()
  const { sendTwice } = await openHono(database, (app, { protect }) => {
    app.use(protect())
    app.use(async (c, go) => {
      await go()
      c.header('x-after', next())
      c.res = new Response(`<${await c.res.text()}>`, c.res)
    })
    app.post('/orders', (c) => c.text('done', 201))
  })
  const { text, headers } = await sendTwice()
  expect([text, headers['x-after']]).toEqual(['<done>', '1'])
})

describe('hono/compress', () => {
  const large = 'tea '.repeat(1000)
  const gzip = { headers: { 'accept-encoding': 'gzip' } }

  test('in front of the layer: each client gets what it accepts', async () => {
    const { send } = await openHono(database, (app, { protect }) => {
      app.use(compress(), protect())
      app.post('/orders', (c) => c.text(large))
    })
    const [first, plain, again] = [await send(gzip), await send(), await send(gzip)]
    expect([first.headers['content-encoding'], gunzipSync(first.bytes).toString()]).toEqual(['gzip', large])
    expect([plain.headers['content-encoding'], plain.text, plain.replayed]).toEqual([undefined, large, true])
    expect([again.headers['content-encoding'], gunzipSync(again.bytes).toString(), again.replayed]).toEqual(['gzip', large, true])
  })

  test('behind the layer: the compressed bytes are replayed, whatever the client accepts', async () => {
    const { send, sendTwice } = await openHono(database, (app, { protect }) => {
      app.use(protect(), compress())
      app.post('/orders', (c) => c.text(large))
    })
    expect(gunzipSync((await sendTwice(gzip)).bytes).toString()).toBe(large)
    expect((await send()).headers['content-encoding']).toBe('gzip')
  })
})

test('hono/cors: a replay has the headers of its own origin', async () => {
  const { send } = await openHono(database, (app, { protect }) => {
    app.use(cors({ origin: ['https://a.example', 'https://b.example'], exposeHeaders: ['Idempotent-Replayed'] }), protect())
    app.post('/orders', (c) => c.text('done', 200, { vary: 'Accept' }))
  })
  for (const origin of ['https://a.example', 'https://b.example']) {
    const { headers } = await send({ headers: { origin } })
    expect(headers).toMatchObject({
      'access-control-allow-origin': origin,
      'access-control-expose-headers': 'Idempotent-Replayed',
      vary: 'Accept, Origin',
    })
  }
})

describe('hono/timeout', () => {
  const late: MiddlewareHandler = timeout(20)

  test('in front of the layer: its client is told, the work goes on, and a retry gets the answer', async () => {
    let open = () => {}
    const gate = new Promise<void>((resolve) => {
      open = resolve
    })
    const { send, runs, keyState } = await openHono(database, (app, { protect, count }) => {
      app.use('*', async (c, next) => (c.req.header('x-patient') ? next() : late(c, next)))
      app.use(protect())
      app.post('/orders', async (c) => {
        count()
        await gate
        return c.text('done')
      })
    })
    expect((await send()).status).toBe(504)
    open()
    await waitUntil('the answer is stored', async () => (await keyState()) === 'complete')
    const again = await send({ headers: { 'x-patient': 'yes' } })
    expect([again.text, again.replayed, runs()]).toEqual(['done', true, 1])
  })

  test('in front of the layer, and the answer is too large to be kept: it comes to its end unheard', async () => {
    let open = () => {}
    const gate = new Promise<void>((resolve) => {
      open = resolve
    })
    const { send, keyState } = await openHono(
      database,
      (app, { protect }) => {
        app.use(late, protect())
        app.post('/orders', async (c) => {
          await gate
          return c.body(ReadableStream.from(Array(50).fill(new Uint8Array(1_000))) as ReadableStream)
        })
      },
      { maxAnswerBytes: 5_000 },
    )
    expect((await send()).status).toBe(504)
    open()
    await waitUntil('the answer is stored', async () => (await keyState()) === 'complete')
  })

  test('behind the layer: its 504 is the failure of a handler that may still be at work', async () => {
    const { send, happened } = await openHono(database, (app, { protect, count }) => {
      app.use(protect({ afterFailure: 'park' }), late)
      app.post('/orders', () => {
        count()
        return new Promise<Response>(() => {})
      })
    })
    expect((await send()).status).toBe(504)
    expect(happened()).toEqual(['executing', 'parked'])
  })
})

test('middleware in front that does not wait for those behind it: they answer all the same, and the next client gets it', async () => {
  let open = () => {}
  const gate = new Promise<void>((resolve) => {
    open = resolve
  })
  const { send, runs, keyState } = await openHono(database, (app, { protect, count }) => {
    let impatient = true
    app.use(async (c, next) => {
      const done = next()
      if (!impatient) return done
      impatient = false
      return c.text('accepted', 202)
    })
    app.use(protect())
    app.use(async (c, next) => {
      await next()
      c.res.headers.set('x-after', 'seen')
    })
    app.post('/orders', async (c) => {
      await gate
      return c.text(`run ${count()}`, 201)
    })
  })
  expect((await send()).status).toBe(202)
  open()
  await waitUntil('the answer is stored', async () => (await keyState()) === 'complete')
  const again = await send()
  expect([again.status, again.text, again.replayed, runs()]).toEqual([201, 'run 1', true, 1])
  expect(again.headers['x-after']).toBe('seen')
})

describe('where it is mounted', () => {
  test('in a sub-application, below a base path: the scope is the whole path', async () => {
    const { sendTwice, send, keyState } = await openHono(database, (app, { protect, count }) => {
      const orders = new Hono().use(protect()).post('/:shop', (c) => c.text(`${c.req.param('shop')} ${count()}`))
      app.basePath('/v1').route('/orders', orders)
      app.post('/open', (c) => c.text(`open ${count()}`))
    })
    expect((await sendTwice({ path: '/v1/orders/a' })).text).toBe('a 1')
    expect((await sendTwice({ path: '/v1/orders/b' })).text).toBe('b 2')
    expect(await keyState('POST /v1/orders/a')).toBe('complete')
    // Not behind it.
    expect([(await send({ path: '/open' })).text, (await send({ path: '/open' })).text]).toEqual(['open 3', 'open 4'])
  })

  test('on one route', async () => {
    const { sendTwice, send } = await openHono(database, (app, { protect, count }) => {
      app.post('/orders', protect(), (c) => c.text(`run ${count()}`))
      app.post('/others', (c) => c.text(`run ${count()}`))
    })
    expect((await sendTwice()).text).toBe('run 1')
    expect([(await send({ path: '/others' })).text, (await send({ path: '/others' })).text]).toEqual(['run 2', 'run 3'])
  })

  test('twice: the outer one protects, and waits for nobody', async () => {
    const { sendTwice, runs, happened } = await openHono(database, (app, { protect, count }) => {
      app.use(protect({ scope: 'tenant', whenInProgress: 'wait', wait: '60s' }))
      app.post('/orders', protect({ scope: 'tenant', whenInProgress: 'wait', wait: '60s' }), (c) => c.text(`run ${count()}`))
    })
    expect((await sendTwice()).text).toBe('run 1')
    expect([runs(), happened()]).toEqual([1, ['executing', 'finished', 'replayed']])
  })

  test('twice, and the outer one lets the request pass: the inner one protects it', async () => {
    const { sendTwice, runs } = await openHono(database, (app, { protect, count }) => {
      app.use(protect())
      app.put('/orders', protect({ methods: ['PUT'] }), (c) => c.text(`run ${count()}`))
    })
    expect((await sendTwice({ method: 'PUT' })).text).toBe('run 1')
    expect(runs()).toBe(1)
  })

  test('in front of serve(): refused, and nothing runs', async () => {
    const errors = vi.spyOn(console, 'error').mockImplementation(() => {})
    const { send, runs } = await openHono(database, (app, { once, protect, count }) => {
      const operation = once.operation('nested', {}, async () => reply(201, { run: count() }))
      app.post('/orders', protect(), serve(operation, { tenant }))
    })
    expect([(await send()).status, runs()]).toEqual([500, 0])
    expect(errors.mock.calls[0]?.[0]).toMatchObject({ code: 'layers_nested' })
    errors.mockRestore()
  })
})

test('serve() keeps the headers that are set before it, and is not touched by a layer behind it', async () => {
  const next = counter()
  const { send } = await openHono(database, (app, { once, protect, count }) => {
    const operation = once.operation('served', {}, async () => reply(201, { run: count() }, { 'x-own': 'kept' }))
    app.use(async (c, go) => {
      c.header('x-before', next())
      await go()
    })
    app.post('/orders', serve(operation, { tenant }))
    app.use(protect())
  })
  for (const [value, replayed] of [['1', false] as const, ['2', true] as const]) {
    const answered = await send()
    expect([answered.status, answered.text, answered.replayed]).toEqual([201, '{"run":1}', replayed])
    expect(answered.headers).toMatchObject({ 'x-before': value, 'x-own': 'kept', 'content-type': 'application/json' })
  }
})

test('runOf() knows the run of a context and of its request, where there is one', async () => {
  const { send } = await openHono(database, (app, { once, protect }) => {
    app.use(protect())
    app.post('/orders', async (c) => {
      const run = runOf(once, c)
      if (!run) return c.text('unprotected')
      return c.json([run.attempt, run.idempotencyKey, run === runOf(once, c.req.raw), await run.phase('step', () => 'done')])
    })
  })
  expect((await send()).text).toBe('[1,"k",true,"done"]')
  expect((await send({ key: null })).text).toBe('unprotected')
})

describe('app.request(), without a server', () => {
  async function open() {
    return openHono(database, (app, { protect, count }) => {
      app.use(protect())
      app.post('/orders', async (c) => c.text(`${count()}: ${await c.req.text()}`, 201))
    })
  }

  test('runs once, replays, and tells bodies apart that no header announces', async () => {
    const { app, tenant: of } = await open()
    const post = async (body?: string) => {
      const response = await app.request('/orders', {
        method: 'POST',
        headers: { 'idempotency-key': 'k', 'x-tenant': of, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body }),
      })
      return [response.status, response.headers.get('idempotent-replayed'), await response.text()]
    }
    expect(await post('{"a":1}')).toEqual([201, null, '1: {"a":1}'])
    expect(await post('{"a":1}')).toEqual([201, 'true', '1: {"a":1}'])
    expect((await post('{"a":2}'))[0]).toBe(422)
    expect((await post())[0]).toBe(422)
  })

  test('the same Request twice is a retry', async () => {
    const {
      app,
      tenant: of,
      runs,
    } = await openHono(database, (app, { protect, count }) => {
      app.use(protect())
      app.post('/orders', (c) => c.text(`run ${count()}`))
    })
    const request = new Request('http://localhost/orders', { method: 'POST', headers: { 'idempotency-key': 'k', 'x-tenant': of } })
    expect(await (await app.request(request)).text()).toBe('run 1')
    expect(await (await app.request(request)).text()).toBe('run 1')
    expect(runs()).toBe(1)
  })

  test('a worker is told to wait for the answer to be stored', async () => {
    const { app, tenant: of, keyState } = await open()
    const waited: Promise<unknown>[] = []
    const executionCtx = { waitUntil: (work: Promise<unknown>) => void waited.push(work), passThroughOnException() {}, props: {} }
    const init = { method: 'POST', headers: { 'idempotency-key': 'k', 'x-tenant': of } }
    void app.request('/orders', init, {}, executionCtx)
    await waitUntil('it is told', () => waited.length)
    await waited[0]
    expect(await keyState()).toBe('complete')
  })
})

test('options that are wrong are an error where it is mounted, not at the first request', async () => {
  const { once } = await openHono(database, () => {})
  expect(() => layer(once, { afterFailure: 'again' as 'rerun' })).toThrow(/afterFailure/)
  expect(() => layer(once, { tenant: undefined as unknown as 'single' })).toThrow(/tenant/)
})
