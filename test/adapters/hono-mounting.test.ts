import { Hono } from 'hono'
import { describe, expect, test, vi } from 'vitest'
import { runOf, serve } from '../../src/adapters/hono.js'
import { reply } from '../../src/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { gate } from './fetch-bench.js'
import { layer, openHono, tenant } from './hono-bench.js'

const database = useDatabase()

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
  let values = 0
  const { send } = await openHono(database, (app, { once, protect, count }) => {
    const operation = once.operation('served', {}, async () => reply(201, { run: count() }, { 'x-own': 'kept' }))
    app.use(async (c, go) => {
      values += 1
      c.header('x-before', String(values))
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

  test('the same Request twice at once: one runs, and the other one is in progress', async () => {
    const work = gate()
    const {
      app,
      tenant: of,
      runs,
    } = await openHono(database, (app, { protect, count }) => {
      app.use(protect())
      app.post('/orders', async (c) => {
        const run = count()
        await work.opened
        return c.text(`run ${run}`)
      })
    })
    const headers = { 'idempotency-key': 'k', 'x-tenant': of }
    const request = new Request('http://localhost/orders', { method: 'POST', headers, body: 'tea' })
    const first = app.request(request)
    await waitUntil('the handler runs', runs)
    expect((await app.request(request)).status).toBe(409)
    work.open()
    expect([await (await first).text(), runs()]).toEqual(['run 1', 1])
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
