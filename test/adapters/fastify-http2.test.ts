import { type ClientHttp2Session, connect } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import fastify, { type FastifyInstance } from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import { idempotency } from '../../src/adapters/fastify.js'
import { Gate } from '../../src/testing/adapter-cases/adapter-case.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { tenant } from './fastify-app.js'
import { openService, type ServiceOptions } from './service.js'

const database = useDatabase()

async function start(build: (app: FastifyInstance) => unknown, once?: ServiceOptions) {
  const service = await openService(database, once)
  const app = fastify({ http2: true })
  app.addHook('onRequest', async (_request, reply) => void reply.header('x-fresh', 'yes'))
  await app.register(idempotency(service.once, { tenant, afterFailure: 'rerun' }))
  await build(app as unknown as FastifyInstance)
  await app.listen({ port: 0, host: '127.0.0.1' })
  const session = connect(`http://127.0.0.1:${(app.server.address() as AddressInfo).port}`)
  onTestFinished(async () => {
    session.destroy()
    await app.close()
  })
  return { ...service, session, send: (body?: string) => exchange(session, service.tenant, body).answer }
}

function exchange(session: ClientHttp2Session, tenant: string, body = '{"item":"tea"}') {
  const stream = session.request({
    ':method': 'POST',
    ':path': '/work',
    'content-type': 'application/json',
    'idempotency-key': '"key-1"',
    'x-tenant': tenant,
  })
  stream.end(body)
  const answer = new Promise<{ status: number; text: string; replayed: boolean; fresh: unknown }>((resolve, reject) => {
    let text = ''
    stream.setEncoding('utf8').on('data', (piece: string) => {
      text += piece
    })
    stream.on('error', reject).on('response', (headers) => {
      const { ':status': status = 0, 'idempotent-replayed': mark, 'x-fresh': fresh } = headers
      stream.on('end', () => resolve({ status, text, replayed: mark === 'true', fresh }))
    })
  })
  answer.catch(() => {})
  return { stream, answer }
}

test('HTTP/2: runs once, replays, refuses another body', async () => {
  let runs = 0
  const { send } = await start((app) => {
    app.post('/work', async ({ body }, reply) => reply.code(201).send({ body, runs: ++runs }))
  })
  const first = { status: 201, text: '{"body":{"item":"tea"},"runs":1}', replayed: false, fresh: 'yes' }
  expect(await send()).toEqual(first)
  expect(await send()).toEqual({ ...first, replayed: true })
  expect(await send('{}')).toMatchObject({ status: 422, fresh: 'yes' })
})

test.each([
  ['a stream', () => Readable.from(['one ', 'two'])],
  ['a large body', () => 'x'.repeat(200_000)],
  ['nothing', () => undefined],
])('HTTP/2: replays %s', async (_, value) => {
  const { send } = await start((app) => {
    app.post('/work', async () => value())
  })
  const first = await send()
  expect(await send()).toEqual({ ...first, replayed: true })
  expect(first.status).toBe(200)
})

test('HTTP/2: the client goes half-way: the work goes on, its answer is stored', async () => {
  const [reached, go] = [new Gate(), new Gate()]
  const {
    session,
    tenant: caller,
    stateOf,
    send,
  } = await start((app) => {
    app.post('/work', async () => {
      reached.open()
      await go.opened
      return { done: true }
    })
  })
  const { stream } = exchange(session, caller)
  await reached.opened
  const closed = new Promise((resolve) => stream.once('close', resolve))
  stream.close()
  await closed
  go.open()
  await waitUntil('the answer is stored', async () => (await stateOf()) === 'complete')
  expect(await send()).toMatchObject({ text: '{"done":true}', replayed: true })
})
