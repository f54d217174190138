import { getRequestListener } from '@hono/node-server'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { flow } from '../../src/adapters/fetch/flow.js'
import { Pieces } from '../../src/adapters/fetch/pieces.js'
import { rawConnection, rawRequest } from '../../src/testing/adapter-cases/client.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { gate, openFetch } from './fetch-bench.js'
import { listen } from './listen.js'

const database = useDatabase()
const maxAnswerBytes = 5_000
const once = { maxAnswerBytes }
const piece = () => new Uint8Array(1_000).fill(120)

/** A stream of pieces that counts how many were wanted, and knows whether it was given up. */
function source(count: number, { failAt = Number.POSITIVE_INFINITY, wait = async (_: number) => {} } = {}) {
  const seen = { pulled: 0, cancelled: false }
  const stream = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        await wait(seen.pulled)
        if (seen.pulled === failAt) return controller.error(new Error('the source broke'))
        if (seen.pulled === count) return controller.close()
        seen.pulled += 1
        controller.enqueue(piece())
      },
      cancel() {
        seen.cancelled = true
      },
    },
    { highWaterMark: 0 },
  )
  return Object.assign(seen, { stream })
}

/** A client that takes what comes, and tells whether it came to its end. */
async function rawSend(url: string, tenant: string) {
  const socket = await rawConnection(url)
  socket.write(rawRequest({ path: '/orders', tenant, key: 'k', body: '{"item":"tea"}' }))
  return socket
}

const isComplete = async (keyState: () => Promise<string | undefined>) =>
  waitUntil('the answer is stored', async () => (await keyState()) === 'complete')

describe('a stream that breaks half-way', () => {
  test('within the cap: the client gets an error and nothing of it, and a retry runs', async () => {
    const { send, errors, happened } = await openFetch(
      database,
      (_, run) => new Response(source(3, { failAt: run === 1 ? 2 : 99 }).stream),
      { once },
    )
    expect([(await send()).status, String(errors[0])]).toEqual([500, 'Error: the source broke'])
    expect(happened()).toEqual(['executing', 'released'])
    expect((await send()).bytes).toHaveLength(3_000)
  })

  test.each([
    ['rerun', 'released'],
    ['store', 'failed'],
    ['park', 'parked'],
  ] as const)('over the cap, and afterFailure is %s: the connection breaks too, and the key is %s', async (afterFailure, event) => {
    const { send, happened } = await openFetch(database, () => new Response(source(20, { failAt: 12 }).stream), {
      once,
      options: { afterFailure },
    })
    await expect(send()).rejects.toThrow(/aborted|hang up/)
    await waitUntil('the key is settled', () => happened().length === 2)
    expect(happened()).toEqual(['executing', event])
  })

  test('over the cap, a client that goes after that rejects nothing that is not handled', async () => {
    const gone = new AbortController()
    const pieces = new Pieces(source(20, { failAt: 2 }).stream)
    const flowing = flow(new Response(), { first: piece(), last: piece(), pieces, clientGone: gone.signal })
    const sized = expect(flowing.size).rejects.toThrow('the source broke')
    await expect(flowing.response.arrayBuffer()).rejects.toThrow('the source broke')
    const unhandled = new Promise((resolve) => void process.once('unhandledRejection', resolve))
    gone.abort()
    await sized
    expect(await Promise.race([unhandled, new Promise((resolve) => setTimeout(resolve, 50, 'nothing'))])).toBe('nothing')
  })

  test('over the cap, on @hono/node-server: the client cannot take what it got for the whole', async () => {
    const errors = vi.spyOn(console, 'error').mockImplementation(() => {})
    onTestFinished(() => errors.mockRestore())
    const breaks = gate()
    const from = source(20, { failAt: 12, wait: (pulled) => (pulled < 12 ? Promise.resolve() : breaks.opened) })
    const { call, tenant, happened } = await openFetch(database, () => new Response(from.stream), { once })
    const { url, close } = await listen(getRequestListener(call, { overrideGlobalObjects: false }))
    onTestFinished(close)
    const socket = await rawSend(url, tenant)
    await waitUntil('a part has come', () => socket.received().length > 6_000)
    breaks.open()
    await waitUntil('the connection is closed', () => socket.closed)
    expect(socket.received()).toContain('HTTP/1.1 200')
    // The end of a chunked body.
    expect(socket.received()).not.toContain('\r\n0\r\n\r\n')
    await waitUntil('the key is settled', () => happened().length === 2)
    expect(happened()).toEqual(['executing', 'released'])
  })
})

test('over the cap, a client that does not read holds the handler’s stream up, and gets all of it once it does', async () => {
  // Far more than the sockets on both sides hold.
  const count = 30_000
  const from = source(count)
  const { tenant, keyState, ...bench } = await openFetch(database, () => new Response(from.stream), { once })
  const socket = await rawSend(bench.url, tenant)
  socket.pause()
  let before = -1
  // Still, as soon as two looks with a round trip in between see the same.
  await waitUntil('the stream stands still', async () => {
    const still = from.pulled > 5 && from.pulled === before
    before = from.pulled
    for (let trips = 0; trips < 20; trips += 1) await keyState()
    return still
  })
  expect(from.pulled).toBeLessThan(count)
  expect(await keyState()).toBe('processing')
  socket.resume()
  await isComplete(keyState)
  expect(from.pulled).toBe(count)
})

describe('over the cap, the client goes', () => {
  test('in the middle: the stream comes to its end, and the answer counts as given', async () => {
    const rest = gate()
    const from = source(50, { wait: (pulled) => (pulled < 20 ? Promise.resolve() : rest.opened) })
    const { send, tenant, keyState, runs, store, ...bench } = await openFetch(database, () => new Response(from.stream), { once })
    const socket = await rawSend(bench.url, tenant)
    await waitUntil('the answer flows', () => socket.received().length > 10_000)
    socket.resetAndDestroy()
    await waitUntil('the server has noticed', () => socket.closed)
    rest.open()
    await isComplete(keyState)
    expect([from.pulled, from.cancelled, runs()]).toEqual([50, false, 1])
    expect((await send()).status).toBe(410)
    expect(await store.keyRead({ tenant, scope: 'POST /orders', key: 'k' })).toMatchObject({ answer: { omittedBytes: 50_000 } })
  })

  test('before it flows, and the server does not care for the stream: it comes to its end all the same', async () => {
    const client = new AbortController()
    const work = gate()
    const from = source(50)
    const { call, request, keyState, runs } = await openFetch(
      database,
      async () => {
        await work.opened
        return new Response(from.stream)
      },
      { once },
    )
    const first = call(request({ signal: client.signal }))
    await waitUntil('the handler runs', runs)
    client.abort()
    work.open()
    const response = await first
    await isComplete(keyState)
    expect(from.pulled).toBe(50)
    // Whoever reads it all the same must not take a part for the whole.
    await expect(response.arrayBuffer()).rejects.toThrow()
  })

  test('while it flows, and the server does not care for the stream', async () => {
    const client = new AbortController()
    const from = source(50)
    const { call, request, keyState } = await openFetch(database, () => new Response(from.stream), { once })
    const response = await call(request({ signal: client.signal }))
    expect(await keyState()).toBe('processing')
    client.abort()
    await isComplete(keyState)
    expect([from.pulled, from.cancelled]).toEqual([50, false])
    await expect(response.arrayBuffer()).rejects.toThrow()
  })
})

test('R6: over the cap, the last piece that a client waits for is held back, not an empty one behind it', async () => {
  const store = gate()
  const stream = ReadableStream.from([...Array(10).fill(piece()), new Uint8Array(), new Uint8Array()]) as ReadableStream
  const { call, request, beforeFinish } = await openFetch(
    database,
    () => new Response(stream, { headers: { 'content-length': '10000' } }),
    { once },
  )
  const reached = gate()
  beforeFinish(async () => {
    reached.open()
    await store.opened
  })
  const response = await call(request())
  const reader = (response.body as ReadableStream<Uint8Array>).getReader()
  let size = 0
  let done = false
  const reading = (async () => {
    for (let read = await reader.read(); !read.done; read = await reader.read()) size += read.value.length
    done = true
  })()
  await reached.opened
  expect([size, done]).toEqual([9_000, false])
  store.open()
  await reading
  expect([size, done]).toEqual([10_000, true])
})

test('an answer of exactly the cap is kept, and one byte more is not', async () => {
  const bodyOf = (size: number) => (request: Request) =>
    new Response(new Uint8Array(request.headers.get('idempotency-key') === 'more' ? size + 1 : size))
  const { send, sendTwice } = await openFetch(database, bodyOf(maxAnswerBytes), { once })
  expect((await sendTwice()).bytes).toHaveLength(maxAnswerBytes)
  expect((await send({ key: 'more' })).bytes).toHaveLength(maxAnswerBytes + 1)
  expect((await send({ key: 'more' })).status).toBe(410)
})
