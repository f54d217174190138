import { getRequestListener } from '@hono/node-server'
import { describe, expect, test } from 'vitest'
import { field, idempotency, runOf, serve } from '../../src/adapters/fetch.js'
import { reply } from '../../src/index.js'
import { Gate } from '../../src/testing/adapter-cases/adapter-case.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { openFetch, tenant } from './fetch-bench.js'

const database = useDatabase()

const echo = async (request: Request, run: number) => new Response(`${run}: ${await request.text()}`, { status: 201 })
const statusOf = async (response: Promise<Response>) => (await response).status

/** A source that never ends, and counts how much of it was wanted. */
function endless(size = 1_000) {
  const seen = { pulled: 0, cancelled: false }
  const stream = new ReadableStream(
    {
      pull(controller) {
        seen.pulled += 1
        controller.enqueue(new Uint8Array(size))
      },
      cancel() {
        seen.cancelled = true
      },
    },
    { highWaterMark: 0 },
  )
  return Object.assign(seen, { stream })
}

/** A body of one byte per piece, and how many pieces were taken. */
function pieceByPiece(text: string) {
  let pulled = 0
  const stream = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (pulled === text.length) controller.close()
        else controller.enqueue(Uint8Array.of(text.charCodeAt(pulled)))
        pulled += 1
      },
    },
    { highWaterMark: 0 },
  )
  return { stream, pulled: () => pulled }
}

describe('bodies that no header announces', () => {
  test('are compared, and reach the handler', async () => {
    const { call, request, runs } = await openFetch(database, echo)
    expect(await (await call(request({ body: '{"a":1}' }))).text()).toBe('1: {"a":1}')
    expect(await (await call(request({ body: '{"a":1}' }))).text()).toBe('1: {"a":1}')
    expect(await statusOf(call(request({ body: '{"a":2}' })))).toBe(422)
    expect(await statusOf(call(request()))).toBe(422)
    expect(runs()).toBe(1)
  })

  test('may be streams, blobs and forms', async () => {
    const { call, request } = await openFetch(database, echo)
    const streamed = (text: string) => ({
      body: ReadableStream.from([new TextEncoder().encode(text)]) as ReadableStream,
      duplex: 'half' as const,
    })
    expect(await statusOf(call(request(streamed('{"a":1}'))))).toBe(201)
    expect(await statusOf(call(request(streamed('{"a":2}'))))).toBe(422)
    expect(await statusOf(call(request({ body: new Blob(['{"a":1}']) })))).toBe(201)
    const form = (item: string) => {
      const { 'content-type': _, ...headers } = Object.fromEntries(request({ headers: { 'idempotency-key': 'form' } }).headers)
      return new Request('http://localhost/orders', { method: 'POST', headers, body: new URLSearchParams({ item }) })
    }
    expect(await statusOf(call(form('tea')))).toBe(201)
    expect(await statusOf(call(form('gin')))).toBe(422)
  })
})

describe('a body over the limit', () => {
  test('is not read at all if it says so', async () => {
    const { call, request, runs } = await openFetch(database, echo, { options: { maxBodyBytes: 10_000 } })
    const upload = endless()
    const given = request({ body: upload.stream, duplex: 'half', headers: { 'content-length': '10001' } })
    expect(await statusOf(call(given))).toBe(413)
    expect([upload.pulled, runs()]).toEqual([0, 0])
  })

  test('is read no further than that, and the key stays free', async () => {
    const { call, request, runs, keyState } = await openFetch(database, echo, { options: { maxBodyBytes: 10_000 } })
    const upload = endless()
    const given = request({ body: upload.stream, duplex: 'half' })
    expect(await statusOf(call(given))).toBe(413)
    expect(upload.pulled).toBeLessThan(20)
    expect([runs(), await keyState()]).toEqual([0, undefined])
    // Our copy does not hold on to it: whoever has the request can give it up.
    await given.body?.cancel()
    expect(upload.cancelled).toBe(true)
  })
})

describe('a body that was read before', () => {
  test.each<[string, (request: Request) => unknown]>([
    ['whole', (request) => request.text()],
    ['in part', async (request) => (await request.body?.getReader().read())?.done],
    ['not yet, but somebody holds it', (request) => void request.body?.getReader()],
    ['by a request that is made from it', (request) => new Request(request)],
  ])('%s: says that the bytes are gone, and runs nothing', async (_, read) => {
    const { call, request, runs, keyState } = await openFetch(database, echo)
    const given = request({ body: '{"a":1}' })
    await read(given)
    await expect(call(given)).rejects.toMatchObject({ code: 'raw_body_gone' })
    expect([runs(), await keyState()]).toEqual([0, undefined])
  })

  test('cannot stand for a key that would be in it', async () => {
    const { call, request, runs } = await openFetch(database, echo, { options: { key: field('ref'), fingerprint: 'parsed' } })
    const given = request({ body: '{"ref":"r-1"}' })
    await given.text()
    await expect(call(given)).rejects.toMatchObject({ code: 'raw_body_gone' })
    expect(runs()).toBe(0)
  })

  test('was none, and says so: runs', async () => {
    const { call, listen, send, runs } = await openFetch(database, () => new Response('done'))
    // There, every POST has a body, be it empty.
    const readFirst = async (request: Request) => {
      await request.text()
      return call(request)
    }
    await listen(getRequestListener(readFirst, { overrideGlobalObjects: false }))
    expect([(await send({ body: '' })).text, runs()]).toEqual(['done', 1])
    expect([(await send({ key: 'other', body: '{}' })).status, runs()]).toEqual([500, 1])
  })
})

test('a key in the body and the comparison share one reading of it', async () => {
  const { call, request } = await openFetch(database, echo, { options: { key: field('ref') } })
  const upload = pieceByPiece('{"ref":"r-1"}')
  expect(await (await call(request({ body: upload.stream, duplex: 'half' }))).text()).toBe('1: {"ref":"r-1"}')
  expect(upload.pulled()).toBe('{"ref":"r-1"}'.length + 1)
})

test('a key function reads a clone', async () => {
  const { call, request } = await openFetch(database, echo, {
    options: { key: async (given) => ((await given.clone().json()) as { ref: string }).ref },
  })
  expect(await (await call(request({ body: '{"ref":"r-1"}' }))).text()).toBe('1: {"ref":"r-1"}')
  expect(await statusOf(call(request({ body: '{"ref":"r-1","item":"gin"}' })))).toBe(422)
})

test('the handler gets the very request of its framework, and everything else that it was called with', async () => {
  class NextRequest extends Request {
    readonly nextUrl = new URL(this.url)
  }
  const { once, request } = await openFetch(database, echo)
  const seen: unknown[] = []
  const POST = idempotency(once, { tenant, afterFailure: 'rerun' })(
    async (given: NextRequest, { params }: { params: Promise<{ id: string }> }) => {
      seen.push(given)
      return Response.json({ path: given.nextUrl.pathname, id: (await params).id, body: await given.json() })
    },
  )
  const given = new NextRequest(request({ body: '{"a":1}' }))
  const response = await POST(given, { params: Promise.resolve({ id: '7' }) })
  expect(await response.json()).toEqual({ path: '/orders', id: '7', body: { a: 1 } })
  expect(seen[0]).toBe(given)
})

test('the same Request twice is a retry, also when the handler has read it', async () => {
  const { call, request } = await openFetch(database, echo)
  const given = request({ body: '{"a":1}' })
  expect(await (await call(given)).text()).toBe('1: {"a":1}')
  expect(await (await call(given)).text()).toBe('1: {"a":1}')
})

test('the same Request twice at once: one runs, and the other one is in progress', async () => {
  const work = new Gate()
  const { call, request, runs } = await openFetch(database, async (given, run) => {
    await work.opened
    return echo(given, run)
  })
  const given = request({ body: '{"a":1}' })
  const first = call(given)
  await waitUntil('the handler runs', runs)
  expect(await statusOf(call(given))).toBe(409)
  work.open()
  expect(await (await first).text()).toBe('1: {"a":1}')
  expect(runs()).toBe(1)
})

test('the same Request twenty times at once, while its body still arrives: one runs', async () => {
  const { call, request, runs } = await openFetch(database, echo)
  const given = request({ body: pieceByPiece('{"a":1}').stream, duplex: 'half' })
  const statuses = await Promise.all(Array.from({ length: 20 }, () => statusOf(call(given))))
  expect(statuses.every((status) => status === 201 || status === 409)).toBe(true)
  expect(runs()).toBe(1)
})

test('mounted twice, the outer one protects; if that lets the request pass, the inner one does', async () => {
  const { once, request, happened } = await openFetch(database, echo)
  let runs = 0
  const options = { tenant, afterFailure: 'rerun', scope: 'tenant', whenInProgress: 'wait', wait: '60s' } as const
  const POST = idempotency(
    once,
    options,
  )(
    idempotency(once, { ...options, methods: ['POST', 'PUT'] })(async () => {
      runs += 1
      return new Response(`run ${runs}`)
    }),
  )
  const send = async (method: string) => (await POST(request({ method, headers: { 'idempotency-key': method } }))).text()
  expect([await send('POST'), await send('POST'), await send('PUT'), await send('PUT')]).toEqual(['run 1', 'run 1', 'run 2', 'run 2'])
  expect(happened()).toEqual(['executing', 'finished', 'replayed', 'executing', 'finished', 'replayed'])
})

test('the signal of the request aborts half-way: the work goes on, and a retry gets its answer', async () => {
  const client = new AbortController()
  let finish = () => {}
  const { call, request, runs, keyState } = await openFetch(database, async (given) => {
    await new Promise<void>((resolve) => {
      finish = resolve
    })
    return new Response(await given.text())
  })
  const first = call(request({ body: '{"a":1}', signal: client.signal }))
  await waitUntil('the handler runs', runs)
  client.abort()
  finish()
  expect(await (await first).text()).toBe('{"a":1}')
  expect(await keyState()).toBe('complete')
  const again = await call(request({ body: '{"a":1}' }))
  expect([again.headers.get('idempotent-replayed'), runs()]).toEqual(['true', 1])
})

test('a worker is told to wait for the answer to be stored', async () => {
  const { once, request, keyState } = await openFetch(database, echo)
  const waited: Promise<unknown>[] = []
  class Context {
    readonly #own = waited
    waitUntil(work: Promise<unknown>) {
      this.#own.push(work)
    }
  }
  const worker = {
    fetch: idempotency(once, { tenant, afterFailure: 'rerun' })(async (_: Request, _env: object, _ctx: Context) => new Response('done')),
  }
  void worker.fetch(request(), {}, new Context())
  await waitUntil('it is told', () => waited.length)
  await waited[0]
  expect(await keyState()).toBe('complete')
})

test('runOf() knows the run of a request, where there is one', async () => {
  const { once, request } = await openFetch(database, echo)
  const POST = idempotency(once, { tenant, afterFailure: 'rerun' })(async (given) => {
    const run = runOf(once, given)
    return Response.json(run ? [run.attempt, run.idempotencyKey, await run.phase('step', () => 'done')] : null)
  })
  expect(await (await POST(request())).json()).toEqual([1, 'k', 'done'])
  expect(await (await POST(new Request('http://localhost/orders', { method: 'POST' }))).json()).toBe(null)
})

describe('serve()', () => {
  async function open() {
    const bench = await openFetch(database, echo)
    let runs = 0
    const operation = bench.once.operation(`orders-${crypto.randomUUID()}`, {}, async () => {
      runs += 1
      return reply(201, { run: runs })
    })
    return { ...bench, operation, POST: serve(operation, { tenant }), runs: () => runs }
  }

  test('runs an operation once, whatever else it is called with', async () => {
    const { POST, request } = await open()
    const send = async (body: string) => POST(request({ body }), { params: Promise.resolve({}) })
    expect(await (await send('{"a":1}')).json()).toEqual({ run: 1 })
    expect(await (await send('{"a":1}')).json()).toEqual({ run: 1 })
    expect((await send('{"a":2}')).status).toBe(422)
  })

  test.each(['answers', 'throws'])('a worker is told to wait for an operation that %s', async (how) => {
    const { once, request } = await openFetch(database, echo)
    const go = new Gate()
    const waited: Promise<unknown>[] = []
    const operation = once.operation(`orders-${crypto.randomUUID()}`, {}, async () => {
      await go.opened
      if (how === 'throws') throw new Error('boom')
      return reply(201)
    })
    let ended = false
    const response = serve(operation, { tenant })(request(), {}, { waitUntil: (work: Promise<unknown>) => void waited.push(work) })
    const answered = response.then(
      ({ status }) => status,
      (error: Error) => error.message,
    )
    const work = Promise.all(waited).then(() => {
      ended = true
    })
    expect([waited.length, ended]).toEqual([1, false])
    go.open()
    await work
    expect(await answered).toBe(how === 'throws' ? 'boom' : 201)
  })

  test('behind idempotency() is refused, and nothing runs', async () => {
    const { once, POST, request, runs } = await open()
    const nested = idempotency(once, { tenant, afterFailure: 'rerun' })((given: Request) => POST(given))
    await expect(nested(request({ body: '{}' }))).rejects.toMatchObject({ code: 'layers_nested' })
    expect(runs()).toBe(0)
  })

  test('says that the bytes of a body are gone', async () => {
    const { POST, request } = await open()
    const given = request({ body: '{}' })
    await given.text()
    await expect(POST(given)).rejects.toMatchObject({ code: 'raw_body_gone' })
  })
})
