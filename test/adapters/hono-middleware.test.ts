import { gunzipSync } from 'node:zlib'
import type { Context, MiddlewareHandler } from 'hono'
import { compress } from 'hono/compress'
import { setCookie } from 'hono/cookie'
import { cors } from 'hono/cors'
import { requestId } from 'hono/request-id'
import { timeout } from 'hono/timeout'
import { describe, expect, test } from 'vitest'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { gate } from './fetch-bench.js'
import { openHono } from './hono-bench.js'

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

  test('stripe: a replay tells the request id of the first one, and has its own', async () => {
    const next = counter()
    const { send } = await openHono(database, (app, { protect }) => {
      app.use(async (c, go) => {
        c.header('request-id', `req_${next()}`)
        await go()
      })
      app.use(protect({ profile: 'stripe' }))
      app.post('/orders', (c) => c.text('done'))
    })
    expect((await send()).headers['request-id']).toBe('req_1')
    const { headers } = await send()
    expect([headers['request-id'], headers['original-request']]).toEqual(['req_2', 'req_1'])
  })

  test('a cookie that it sets is sent once, and fresh on a replay', async () => {
    const next = counter()
    const { send } = await openHono(database, (app, { protect }) => {
      app.use(async (c, go) => {
        setCookie(c, 'session', next())
        await go()
      })
      app.use(protect())
      app.post('/orders', (c) => {
        setCookie(c, 'own', 'secret')
        return c.text('done')
      })
    })
    expect((await send()).headers['set-cookie']).toEqual(['session=1; Path=/', 'own=secret; Path=/'])
    expect((await send()).headers['set-cookie']).toEqual(['session=2; Path=/'])
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

  test('a header that describes the body is replayed with it, also if the handler sets what was set in front', async () => {
    const { send } = await openHono(database, (app, { protect }) => {
      app.use(async (c, go) => {
        c.header('content-language', c.req.header('accept-language'))
        await go()
      })
      app.use(protect())
      app.post('/orders', (c) => c.text('Danke', 200, { 'content-language': 'de' }))
    })
    for (const language of ['de', 'en']) {
      const { headers, text } = await send({ headers: { 'accept-language': language } })
      expect([text, headers['content-language']]).toEqual(['Danke', 'de'])
    }
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
    const work = gate()
    const { send, runs, keyState } = await openHono(database, (app, { protect, count }) => {
      app.use('*', async (c, next) => (c.req.header('x-patient') ? next() : late(c, next)))
      app.use(protect())
      app.post('/orders', async (c) => {
        count()
        await work.opened
        return c.text('done')
      })
    })
    expect((await send()).status).toBe(504)
    work.open()
    await waitUntil('the answer is stored', async () => (await keyState()) === 'complete')
    const again = await send({ headers: { 'x-patient': 'yes' } })
    expect([again.text, again.replayed, runs()]).toEqual(['done', true, 1])
  })

  test('in front of the layer, and the answer is too large to be kept: it comes to its end unheard', async () => {
    const work = gate()
    const { send, keyState } = await openHono(
      database,
      (app, { protect }) => {
        app.use(late, protect())
        app.post('/orders', async (c) => {
          await work.opened
          return c.body(ReadableStream.from(Array(50).fill(new Uint8Array(1_000))) as ReadableStream)
        })
      },
      { maxAnswerBytes: 5_000 },
    )
    expect((await send()).status).toBe(504)
    work.open()
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
  const work = gate()
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
      await work.opened
      return c.text(`run ${count()}`, 201)
    })
  })
  expect((await send()).status).toBe(202)
  work.open()
  await waitUntil('the answer is stored', async () => (await keyState()) === 'complete')
  const again = await send()
  expect([again.status, again.text, again.replayed, runs()]).toEqual([201, 'run 1', true, 1])
  expect(again.headers['x-after']).toBe('seen')
})
