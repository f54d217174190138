import { Agent } from 'node:http'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { createOnce } from '../../src/index.js'
import { rawConnection, rawRequest } from '../../src/testing/adapter-cases/client.js'
import { manualClock } from '../../src/testing/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { gate, openFetch } from './fetch-bench.js'
import { openHono } from './hono-bench.js'

const database = useDatabase()

type Handler = (request: Request, run: number) => Response | Promise<Response>
type Needs = NonNullable<Parameters<typeof openFetch>[2]>

/** The same service on both adapters. */
const services: [string, (handler: Handler, needs?: Needs) => Promise<Pick<Awaited<ReturnType<typeof openFetch>>, Shared>>][] = [
  ['fetch', (handler, needs) => openFetch(database, handler, needs)],
  [
    'hono',
    (handler, { options: { tenant: _, key: __, ...options } = {}, once } = {}) =>
      openHono(
        database,
        (app, { protect, count }) => {
          app.onError((_, c) => c.text('failed', 500))
          app.use(protect(options))
          app.all('/orders', (c) => handler(c.req.raw, count()))
        },
        once,
      ),
  ],
]
type Shared = 'url' | 'tenant' | 'once' | 'store' | 'send' | 'runs' | 'events' | 'happened' | 'advance' | 'beforeFinish' | 'keyState'

const body = '{"item":"tea"}'

describe.each(services)('%s', (_, open) => {
  /** Sends a request by hand; `hangUp` cuts the connection, and waits until the server has seen it. */
  async function connect(service: Awaited<ReturnType<typeof open>>, part = body) {
    const socket = await rawConnection(service.url)
    onTestFinished(() => void socket.destroy())
    socket.write(rawRequest({ path: '/orders', tenant: service.tenant, key: 'k', body: part, length: body.length }))
    return {
      socket,
      async hangUp() {
        socket.resetAndDestroy()
        await waitUntil('the connection is closed', () => socket.closed)
        // A whole round trip of another client.
        await service.send({ method: 'GET', key: null, body: null })
      },
    }
  }

  const answers: Handler = async (request, run) =>
    request.method === 'GET' ? new Response('up') : new Response(`run ${run}: ${await request.text()}`)

  describe('a client that goes', () => {
    test('in the middle of its body: nothing has run, and the key is free', async () => {
      const service = await open(answers)
      const { hangUp } = await connect(service, body.slice(0, 5))
      await hangUp()
      expect([await service.keyState(), service.events]).toEqual([undefined, []])
      expect((await service.send()).text).toMatch(/run \d: {"item":"tea"}/)
    })

    test('and stalls in the middle of its body instead: the key is free for others', async () => {
      const service = await open(answers)
      await connect(service, body.slice(0, 5))
      await service.send({ method: 'GET', key: null, body: null })
      expect((await service.send()).status).toBe(200)
      expect(service.happened()).toEqual(['executing', 'finished'])
    })

    test('while it waits for another one: the other one is not touched', async () => {
      const work = gate()
      const slow: Handler = async (request, run) => {
        if (request.method === 'POST') await work.opened
        return answers(request, run)
      }
      const service = await open(slow, { options: { whenInProgress: 'wait', wait: '60s' } })
      const first = service.send()
      await waitUntil('the handler runs', () => service.happened().includes('executing'))
      const { hangUp } = await connect(service)
      await hangUp()
      work.open()
      expect((await first).text).toBe('run 1: {"item":"tea"}')
      expect((await service.send()).replayed).toBe(true)
      expect(service.happened().filter((type) => type === 'executing')).toHaveLength(1)
    })

    test('before the handler has read the body: the handler reads it all the same', async () => {
      const work = gate()
      const service = await open(async (request, run) => {
        if (request.method === 'POST') await work.opened
        return answers(request, run)
      })
      const { hangUp } = await connect(service)
      await waitUntil('the handler runs', service.runs)
      await hangUp()
      work.open()
      await waitUntil('the answer is stored', async () => (await service.keyState()) === 'complete')
      const again = await service.send()
      expect([again.text, again.replayed]).toEqual(['run 1: {"item":"tea"}', true])
    })

    test('while the answer is being stored: it is stored', async () => {
      const service = await open(answers)
      const stores = gate()
      const reached = gate()
      service.beforeFinish(async () => {
        reached.open()
        await stores.opened
      })
      const { hangUp } = await connect(service)
      await reached.opened
      await hangUp()
      stores.open()
      await waitUntil('the answer is stored', async () => (await service.keyState()) === 'complete')
      expect((await service.send()).replayed).toBe(true)
    })

    test('after the answer: it is there for the next one', async () => {
      const service = await open(answers)
      const { socket, hangUp } = await connect(service)
      await waitUntil('the answer has come', () => socket.received().includes('run 1'))
      await hangUp()
      expect((await service.send()).replayed).toBe(true)
    })
  })

  describe('a handler that hangs', () => {
    const lease = '10m'
    const maxRun = '5m'

    test('past maxRun: its client gets a 503, a retry runs, and what it answers after that is not stored', async () => {
      const clock = manualClock()
      const hangs = gate()
      const service = await open(
        async (request, run) => {
          if (run === 1) await hangs.opened
          return answers(request, run)
        },
        { once: { clock, lease, maxRun } },
      )
      const first = service.send()
      await waitUntil('the handler runs', service.runs)
      clock.advance(300_000)
      const { status, headers, text } = await first
      expect([status, JSON.parse(text).code, headers['retry-after']]).toEqual([503, 'interrupted', '1'])
      expect((await service.send()).text).toMatch(/^run 2/)
      hangs.open()
      const again = await service.send()
      expect([again.text, again.replayed]).toEqual(['run 2: {"item":"tea"}', true])
      expect(service.happened().filter((type) => type === 'finished')).toHaveLength(1)
    })

    test('past maxRun, and answers with a stream after that: the stream is given up', async () => {
      const clock = manualClock()
      const hangs = gate()
      const seen = { cancelled: false }
      const service = await open(
        async () => {
          await hangs.opened
          return new Response(hangingStream(1, seen))
        },
        { once: { clock, lease, maxRun } },
      )
      const first = service.send()
      await waitUntil('the handler runs', service.runs)
      clock.advance(300_000)
      expect((await first).status).toBe(503)
      hangs.open()
      await waitUntil('the stream is given up', () => seen.cancelled)
    })

    test('past maxRun, in its stream: its client gets a 503, and the stream is given up', async () => {
      const clock = manualClock()
      const seen = { cancelled: false }
      const stream = hangingStream(1, seen)
      const service = await open(() => new Response(stream), { once: { clock, lease, maxRun } })
      const first = service.send()
      await waitUntil('the handler runs', service.runs)
      clock.advance(300_000)
      expect((await first).status).toBe(503)
      await waitUntil('the stream is given up', () => seen.cancelled)
    })

    test('past maxRun, in a stream over the cap: the connection breaks, and the stream is given up', async () => {
      const clock = manualClock()
      // The server tells of a stream that breaks.
      const errors = vi.spyOn(console, 'error').mockImplementation(() => {})
      onTestFinished(() => errors.mockRestore())
      const seen = { cancelled: false }
      const stream = hangingStream(10, seen)
      const service = await open(() => new Response(stream), { once: { clock, lease, maxRun, maxAnswerBytes: 5_000 } })
      const { socket } = await connect(service)
      await waitUntil('a part of it has come', () => socket.received().length > 6_000)
      clock.advance(300_000)
      await waitUntil('the connection is closed', () => socket.closed)
      await waitUntil('the stream is given up', () => seen.cancelled)
      expect(socket.received()).not.toContain('\r\n0\r\n\r\n')
    })
  })

  /** Somebody else holds the key from now on, and has done its work. */
  async function takeOver({ advance, store, tenant }: Awaited<ReturnType<typeof open>>) {
    await advance(600_001)
    const { kind } = await createOnce({ store }).execute(
      { tenant, scope: 'POST /orders', key: 'k', fingerprint: false, afterFailure: 'rerun' },
      async () => ({ status: 201, headers: [], body: new TextEncoder().encode('the other') }),
    )
    expect(kind).toBe('executed')
  }

  test('a lease that is lost: its client gets a 503, and the answer of the other holder stays', async () => {
    const clock = manualClock()
    const hangs = gate()
    const service = await open(
      async (request, run) => {
        await hangs.opened
        return answers(request, run)
      },
      { once: { clock, lease: '10m' } },
    )
    const first = service.send()
    await waitUntil('the handler runs', service.runs)
    await takeOver(service)
    // A heartbeat is due, and finds that the key is somebody else's.
    clock.advance(200_000)
    const { status, text } = await first
    expect([status, JSON.parse(text).code]).toEqual([503, 'interrupted'])
    hangs.open()
    const again = await service.send()
    expect([again.text, again.replayed, service.runs()]).toEqual(['the other', true, 1])
  })

  test('a lease that is lost when all of a stream over the cap is out but its last piece: the connection breaks', async () => {
    const errors = vi.spyOn(console, 'error').mockImplementation(() => {})
    onTestFinished(() => errors.mockRestore())
    const service = await open(() => new Response(ReadableStream.from(Array(10).fill(new Uint8Array(1_000))) as ReadableStream), {
      once: { maxAnswerBytes: 5_000, lease: '10m' },
    })
    const stores = gate()
    let finishes = 0
    service.beforeFinish(async () => {
      finishes += 1
      if (finishes === 1) await stores.opened
    })
    const { socket } = await connect(service)
    await waitUntil('the answer is about to be stored', () => finishes)
    await takeOver(service)
    stores.open()
    await waitUntil('the connection is closed', () => socket.closed)
    expect(socket.received()).not.toContain('\r\n0\r\n\r\n')
    expect(service.happened()).toContain('lease-lost')
  })

  test('large uploads that the handler does not read leave the connection as it was', async () => {
    const service = await open((_, run) => new Response(`run ${run}`), { options: { maxBodyBytes: 6_000_000 } })
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    onTestFinished(() => agent.destroy())
    const upload = (key: string, size: number) => service.send({ key, agent, body: new Uint8Array(size) })
    for (const run of [1, 2]) {
      expect((await upload(`large-${run}`, 5_000_000)).text).toBe(`run ${run}`)
      expect((await upload(`large-${run}`, 5_000_000)).replayed).toBe(true)
    }
  })

  test('thirty requests over one connection leave no rejection and no warning behind', async () => {
    const troubles: unknown[] = []
    const note = (trouble: unknown) => void troubles.push(trouble)
    process.on('unhandledRejection', note).on('warning', note)
    onTestFinished(() => void process.off('unhandledRejection', note).off('warning', note))
    const service = await open(
      (request, run) => {
        if (request.headers.get('idempotency-key')?.startsWith('throws')) throw new Error('no luck')
        if (request.headers.get('idempotency-key')?.startsWith('large')) return new Response(new Uint8Array(9_000))
        return answers(request, run)
      },
      { once: { maxAnswerBytes: 5_000, logger: { info() {}, warn() {}, error() {} } }, options: { maxBodyBytes: 1_000 } },
    )
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    onTestFinished(() => agent.destroy())
    const statuses = new Set<number>()
    for (let index = 0; index < 5; index += 1) {
      for (const [kind, sent] of [
        ['fresh', {}],
        ['fresh', {}],
        ['fresh', { body: '{"item":"gin"}' }],
        ['large', {}],
        ['upload', { body: 'x'.repeat(1_001) }],
        ['throws', {}],
      ] as const) {
        statuses.add((await service.send({ key: `${kind}-${index}`, agent, ...sent })).status)
      }
    }
    expect([...statuses].sort()).toEqual([200, 413, 422, 500])
    await new Promise((resolve) => setImmediate(resolve))
    expect(troubles).toEqual([])
  })
})

/** Gives some pieces, and then nothing more, for ever. */
function hangingStream(pieces: number, seen: { cancelled: boolean }): ReadableStream<Uint8Array> {
  let given = 0
  return new ReadableStream({
    pull(controller) {
      given += 1
      if (given > pieces) return new Promise(() => {})
      controller.enqueue(new Uint8Array(1_000))
    },
    cancel() {
      seen.cancelled = true
    },
  })
}
