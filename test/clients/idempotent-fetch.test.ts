// The package's own client against its own service, over a network that loses answers.
import { randomUUID } from 'node:crypto'
import { once as eventOf } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type IdempotentFetchOptions, idempotentFetch } from '../../src/client/index.js'
import { header } from '../../src/http/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { type ServiceOptions, startCharges } from './charges-service.js'
import { startRelay } from './cutting-relay.js'
import { generous, hurriedClock } from './hurried-clock.js'

const database = useDatabase()
const headers = { 'content-type': 'application/json' }
const post = { method: 'POST', headers, body: '{"amount":100}' }

async function setup(options: ServiceOptions = {}, client: IdempotentFetchOptions = {}) {
  const service = await startCharges(database.pool, options)
  const relay = await startRelay(service.port)
  const clock = hurriedClock()
  const send = idempotentFetch({ ...generous, clock, owner: 'single', ...client })
  return { service, relay, clock, send, url: `http://127.0.0.1:${relay.port}/charges` }
}

describe('one charge', () => {
  test('though answers are lost', async () => {
    const { service, relay, send, url } = await setup()
    relay.loseAnswers(3)
    const response = await send(url, post)
    expect([response.status, response.replayed, response.attempts, service.runs()]).toEqual([201, true, 4, 1])
    expect(await response.json()).toEqual({ run: 1, body: post.body })
  })

  test('though the answer breaks off after its head', async () => {
    const { service, relay, send, url } = await setup()
    relay.loseNextBody()
    const response = await send(url, post)
    expect([response.replayed, response.attempts, service.runs()]).toEqual([true, 2, 1])
    expect(await response.json()).toEqual({ run: 1, body: post.body })
    expect(await send.pending()).toEqual([])
  })

  test('though the network is gone for good, and back much later', async () => {
    const { service, relay, send, url } = await setup({}, { maxAttempts: 3 })
    relay.loseAnswers(3)
    const error = await send(url, post).catch((error: unknown) => error)
    expect(error).toMatchObject({ code: 'no_answer', key: expect.any(String), cause: expect.any(TypeError) })
    const [resumed] = await send.resume()
    expect(resumed).toMatchObject({ kind: 'answered', response: { status: 201, replayed: true, key: (error as { key: string }).key } })
    expect([service.runs(), await send.pending()]).toEqual([1, []])
  })

  test('while another one with its key is under way: it waits as long as it is asked to', async () => {
    const { service, url, send } = await setup()
    const own = { ...post, headers: { ...headers, 'idempotency-key': randomUUID() } }
    service.work.shut()
    const first = send(url, own)
    await service.work.untilWaiting()
    const clock = hurriedClock(async () => {
      service.work.open()
      await waitUntil('the work is done', () => service.seen('finished') === 1)
    })
    const second = await idempotentFetch({ ...generous, clock })(url, own)
    expect([second.replayed, second.attempts]).toEqual([true, 2])
    expect(clock.waits[0]).toBeGreaterThanOrEqual(1_000)
    expect(await second.json()).toEqual(await (await first).json())
    expect(service.runs()).toBe(1)
  })
})

const form = () => {
  const data = new FormData()
  data.set('amount', '100')
  data.set('receipt', new Blob(['\xff\0receipt']), 'receipt.bin')
  return data
}
const bytes = Uint8Array.from({ length: 300 }, (_, index) => index)

describe('the same bytes each time', () => {
  test.each<[string, () => RequestInit]>([
    ['a form with a file', () => ({ body: form() })],
    ['a form of the other kind', () => ({ body: new URLSearchParams({ amount: '100', note: 'ü&' }) })],
    ['a blob', () => ({ body: new Blob([bytes], { type: 'image/png' }) })],
    ['bytes', () => ({ body: bytes })],
    ['a part of a buffer', () => ({ body: bytes.subarray(100, 150) })],
    ['a string', () => ({ body: 'ü' })],
    ['nothing', () => ({})],
  ])('%s', async (_, init) => {
    const { service, relay, send, url } = await setup()
    relay.loseAnswers(1)
    const response = await send(url, { method: 'POST', ...init() })
    // Other bytes, or another media type, would be a 422.
    expect([response.status, response.replayed, response.attempts, service.runs()]).toEqual([201, true, 2, 1])
    // What fetch makes of it is the same request, but for the boundary of a form: that is new each time.
    const plain = await fetch(url, { method: 'POST', headers: { 'idempotency-key': response.key as string }, ...init() })
    const { part } = (await plain.json()) as { part?: string }
    expect([plain.status, part]).toEqual(init().body instanceof FormData ? [422, 'body'] : [201, undefined])
  })

  test.each<[string, () => RequestInit]>([
    ['a form', () => ({ body: form() })],
    ['JSON', () => post],
    ['nothing', () => ({})],
  ])('a Request with %s', async (_, init) => {
    const { service, relay, send, url } = await setup()
    relay.loseAnswers(1)
    const response = await send(new Request(url, { method: 'POST', ...init() }))
    expect([response.status, response.replayed, service.runs()]).toEqual([201, true, 1])
  })

  test('bytes that the caller changes afterwards are sent as they were', async () => {
    const { relay, send, url } = await setup()
    relay.loseAnswers(1)
    const mine = new TextEncoder().encode('before')
    const sending = send(url, { method: 'POST', body: mine })
    mine.fill(88)
    expect(await (await sending).json()).toEqual({ run: 1, body: 'before' })
  })

  test('a form that is resumed has its boundary, too', async () => {
    const { service, relay, send, url } = await setup({}, { maxAttempts: 1 })
    relay.loseAnswers(1)
    await expect(send(url, { method: 'POST', body: form() })).rejects.toMatchObject({ code: 'no_answer' })
    expect(await send.resume()).toMatchObject([{ kind: 'answered', response: { status: 201, replayed: true } }])
    expect(service.runs()).toBe(1)
  })

  test.each<[string, () => unknown]>([
    ['a stream', () => new Blob(['x']).stream()],
    ['an object', () => ({ amount: 100 })],
  ])('%s is refused at once, with what to do', async (_, body) => {
    const { service, send, url } = await setup()
    await expect(send(url, { method: 'POST', body: body() as string })).rejects.toMatchObject({
      code: 'body_not_replayable',
      message: expect.stringContaining('pass a string, bytes or a Blob'),
    })
    expect([service.runs(), await send.pending()]).toEqual([0, []])
  })
})

describe('every server takes the key', () => {
  test.each<[string, NonNullable<ServiceOptions['http']>]>([
    ['lenient', {}],
    ['strict', { key: header('Idempotency-Key', { syntax: 'strict' }) }],
    ['Stripe’s profile', { profile: 'stripe' }],
  ])('%s', async (_, http) => {
    const { service, relay, send, url } = await setup({ http })
    relay.loseAnswers(1)
    expect(await send(url, post)).toMatchObject({ status: 201, replayed: true, attempts: 2 })
    expect(service.runs()).toBe(1)
  })
})

describe('answers', () => {
  test('a failure that the server takes back is tried again', async () => {
    let runs = 0
    const answer: ServiceOptions['answer'] = (response) => {
      runs += 1
      if (runs < 3) response.statusCode = 503
    }
    const { send, url } = await setup({ answer })
    expect(await send(url, post)).toMatchObject({ status: 201, replayed: false, attempts: 3 })
  })

  test('a failure that the server keeps is final as soon as it is known to be kept', async () => {
    const answer: ServiceOptions['answer'] = (response) => {
      response.statusCode = 500
    }
    const { service, send, url } = await setup({ answer, http: { afterFailure: 'store' } })
    expect(await send(url, post)).toMatchObject({ status: 500, replayed: true, attempts: 2 })
    expect([service.runs(), await send.pending()]).toEqual([1, []])
  })

  test('another body under the same key is told at once', async () => {
    const { service, send, url } = await setup()
    const own = { ...headers, 'idempotency-key': randomUUID() }
    await send(url, { ...post, headers: own })
    expect(await send(url, { ...post, headers: own, body: '{"amount":999}' })).toMatchObject({ status: 422, attempts: 1 })
    expect(service.runs()).toBe(1)
  })

  test('nobody listens: it is tried, kept and told', async () => {
    const { send } = await setup({}, { maxAttempts: 2 })
    const server = createServer().listen(0, '127.0.0.1')
    await eventOf(server, 'listening')
    const { port } = server.address() as AddressInfo
    await new Promise((resolve) => server.close(resolve))
    await expect(send(`http://127.0.0.1:${port}/charges`, post)).rejects.toMatchObject({ code: 'no_answer' })
    expect(await send.pending()).toHaveLength(1)
  })
})

test.each([302, 307, 308])('a %d is shown as it is: the key goes to no other address', async (status) => {
  const { service, send, url } = await setup()
  const moved = createServer((_, response) => response.writeHead(status, { location: url }).end()).listen(0, '127.0.0.1')
  onTestFinished(() => {
    moved.close()
    moved.closeAllConnections()
  })
  await eventOf(moved, 'listening')
  const old = `http://127.0.0.1:${(moved.address() as AddressInfo).port}/charges`
  for (const input of [old, new Request(old, post)]) expect(await send(input, post)).toMatchObject({ status, attempts: 1 })
  expect(service.runs()).toBe(0)
})
