import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { Webhook } from 'standardwebhooks'
import { expect, onTestFinished, test } from 'vitest'
import { type Job, webhookSink } from '../../src/outbox/index.js'
import { relay } from '../../src/workers/index.js'
import { codeOf } from '../support/code-of.js'
import { useDatabase } from '../support/postgres/database.js'
import { nothing, setup } from './setup.js'

const database = useDatabase()
const secret = `whsec_${Buffer.from('a secret of thirty-two bytes....').toString('base64')}`

interface Received {
  readonly headers: IncomingMessage['headers']
  readonly body: string
  readonly method: string | undefined
}

/** A real receiver that answers as it is told. */
async function receiver(answer: (response: ServerResponse, received: Received) => void) {
  const received: Received[] = []
  const sockets = new Set<unknown>()
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request.setEncoding('utf8')) body += chunk
    received.push({ headers: request.headers, body, method: request.method })
    answer(response, received.at(-1) as Received)
  })
  server.on('connection', (socket) => sockets.add(socket))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as { port: number }
  return { url: `http://127.0.0.1:${port}/hooks`, received, sockets }
}

const job: Job = { id: crypto.randomUUID(), tenant: 't', name: 'order.paid', payload: { order: 1 }, group: null, attempt: 1, stagedAt: 0 }
const { signal } = new AbortController()
const statusReceiver = (status: number, headers: Record<string, string> = {}) =>
  receiver((response) => response.writeHead(status, headers).end('x'))

test('posts a job as JSON, signed by Standard Webhooks, with its id as the key', async () => {
  const { stage, once, tenant } = await setup(database)
  const { url, received } = await receiver((response) => response.writeHead(204).end())
  await stage({ name: 'order.paid', payload: { order: 7 } })
  const sink = webhookSink({ url, signer: new Webhook(secret), headers: { 'x-from': tenant } })
  expect(await relay(once, { sink }).runOnce()).toEqual({ ...nothing, delivered: 1 })
  const [{ headers, body, method }] = received as [Received]
  expect(new Webhook(secret).verify(body, headers as Record<string, string>)).toEqual({
    type: 'order.paid',
    timestamp: expect.stringMatching(/^\d{4}-.*Z$/),
    data: { order: 7 },
  })
  expect(headers).toMatchObject({ 'content-type': 'application/json', 'x-from': tenant, 'idempotency-key': headers['webhook-id'] })
  expect([method, headers['webhook-id']]).toEqual(['POST', expect.stringMatching(/^[0-9a-f-]{36}$/)])
})

test('sends the same id and the same bytes with each attempt', async () => {
  const { stage, once } = await setup(database)
  let status = 503
  const { url, received } = await receiver((response) => response.writeHead(status).end())
  await stage({ payload: { order: 7 } })
  const service = relay(once, { sink: webhookSink({ url }), backoff: { first: '1m' } })
  expect(await service.runOnce()).toEqual({ ...nothing, failed: 1 })
  status = 200
  await database.pool.query('update oncekey.jobs set due_at = clock_timestamp()')
  expect(await service.runOnce()).toEqual({ ...nothing, delivered: 1 })
  const [first, second] = received.map(({ headers, body }) => [headers['idempotency-key'], body])
  expect(second).toEqual(first)
})

test.each([
  [200, 'delivered'],
  [299, 'delivered'],
  [302, { final: false }],
  [400, { final: false }],
  [404, { final: false }],
  [410, { final: true }],
  [429, { final: false }],
  [500, { final: false }],
] as const)('takes %d as it is meant', async (status, expected) => {
  const { url, received } = await statusReceiver(status, { location: '/elsewhere' })
  const [delivery] = await webhookSink({ url }).deliver([job], { signal })
  if (typeof expected === 'string') expect(delivery).toBe(expected)
  else expect(delivery).toMatchObject({ ...expected, error: { message: expect.stringContaining(String(status)) } })
  // A redirect is not followed.
  expect(received).toHaveLength(1)
})

test.each(['Content-Type', 'content-type', 'CONTENT-TYPE'])(
  'sends a media type of the user’s once, and instead of ours: %s',
  async (name) => {
    const { url, received } = await statusReceiver(200)
    await webhookSink({ url, headers: { [name]: 'application/cloudevents+json' } }).deliver([job], { signal })
    expect(received[0]?.headers).toMatchObject({ 'content-type': 'application/cloudevents+json', 'webhook-id': job.id })
  },
)

test('lets the user say which statuses are final', async () => {
  const { url } = await statusReceiver(400)
  const [delivery] = await webhookSink({ url, isFinal: (status) => status === 400 }).deliver([job], { signal })
  expect(delivery).toMatchObject({ final: true })
})

test.each([
  ['120', {}, 120_000],
  ['Fri, 01 Jan 2027 00:10:00 GMT', { date: 'Fri, 01 Jan 2027 00:00:00 GMT' }, 600_000],
  ['Fri, 01 Jan 2016 00:10:00 GMT', {}, undefined],
  ['soon', {}, undefined],
] as const)('hears Retry-After: %s', async (value, headers, ms) => {
  const { url } = await statusReceiver(429, { 'retry-after': value, ...headers })
  const [delivery] = await webhookSink({ url }).deliver([job], { signal })
  expect((delivery as { retryAfterMs?: number }).retryAfterMs).toBe(ms)
})

test('gives up on a receiver that hangs, before and after its headers', async () => {
  for (const answer of [() => {}, (response: ServerResponse) => void response.writeHead(200).write('half')]) {
    const { url } = await receiver(answer)
    await expect(webhookSink({ url, timeout: 50 }).deliver([job], { signal })).rejects.toThrow()
  }
})

test('stops when it is told to', async () => {
  const { url } = await receiver(() => {})
  const controller = new AbortController()
  const delivering = webhookSink({ url }).deliver([job], { signal: controller.signal })
  controller.abort(new Error('told to'))
  await expect(delivering).rejects.toThrow('told to')
})

test('reads answers to their end, so that connections are used again, and not those that have none', async () => {
  const { url, sockets } = await receiver((response) => response.writeHead(200).end('x'.repeat(1_000)))
  for (let n = 0; n < 10; n += 1) await webhookSink({ url }).deliver([job], { signal })
  // One is closed in the moment in which the next delivery begins, now and then.
  expect(sockets.size).toBeLessThan(5)
  const endless = await receiver((response) => {
    response.writeHead(200)
    const more = () => {
      // Not at once: Node 26 calls back before it notices that the client has gone.
      if (!response.destroyed) response.write('x'.repeat(10_000), () => setImmediate(more))
    }
    more()
  })
  expect(await webhookSink({ url: endless.url }).deliver([job], { signal })).toEqual(['delivered'])
})

test('checks its options at start', () => {
  expect(codeOf(() => webhookSink({ url: '/hooks' }))).toBe('option_invalid')
  expect(codeOf(() => webhookSink({ url: 'file:///etc/passwd' }))).toBe('option_invalid')
  expect(codeOf(() => webhookSink({ url: 'http://a', signer: {} as never }))).toBe('option_invalid')
  expect(codeOf(() => webhookSink({ url: 'http://a', timeout: 0 }))).toBe('duration_invalid')
})

test.each(['Idempotency-Key', 'Webhook-Id', 'webhook-id', 'WEBHOOK-TIMESTAMP', 'webhook-signature', 'no name', ''])(
  'refuses at start a header that the sink sets, and one that cannot be sent: %j',
  (name) => {
    expect(codeOf(() => webhookSink({ url: 'http://a', headers: { [name]: 'mine' } }))).toBe('option_invalid')
    expect(codeOf(() => webhookSink({ url: 'http://a', headers: { 'x-mine': 'two\nlines' } }))).toBe('option_invalid')
  },
)
