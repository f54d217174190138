import type { RequestListener } from 'node:http'
import { setFlagsFromString } from 'node:v8'
import express from 'express'
import fastify from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import { idempotency as protectExpress } from '../../src/adapters/express.js'
import { idempotency as protectFastify } from '../../src/adapters/fastify.js'
import { idempotency as protectNode } from '../../src/adapters/node.js'
import { createOnce } from '../../src/index.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { waitUntil } from '../support/wait-until.js'
import { listen } from './listen.js'

setFlagsFromString('--allow-natives-syntax')
/** False for an object that V8 keeps as a dictionary. Code that meets one is slower, Node's own included. */
const hasShape = new Function('object', 'return %HasFastProperties(object)') as (object: object) => boolean
/** Code that meets always another one is slower still. */
const shareShape = new Function('one', 'other', 'return %HaveSameMap(one, other)') as (one: unknown, other: unknown) => boolean
/** To objects that were given another prototype, which is what Express does, V8 gives no shape that others have, unless they are dictionaries. */
const isParting = Number.parseInt(process.versions.v8, 10) < 13

const once = () => createOnce({ store: memoryStore() })
const options = { tenant: 'single', afterFailure: 'rerun' } as const

/** Handlers and parsers that add properties of their own while the request is held. */
const services: Record<string, () => Promise<RequestListener>> = {
  async node() {
    return protectNode(
      once(),
      options,
    )((request, response) => {
      Object.assign(request, { user: 'anna' })
      Object.assign(response, { locals: {} })
      request.resume().once('end', () => response.writeHead(201).end('{}'))
    })
  },
  async express() {
    const app = express()
    app.use(protectExpress(once(), options), express.json())
    app.post('/work', (request, response) => void response.status(201).json(request.body))
    return app
  },
  async fastify() {
    const app = fastify()
    await app.register(protectFastify(once(), options))
    app.post('/work', async (request, reply) => reply.code(201).send(request.body))
    await app.ready()
    return (request, response) => app.routing(request, response)
  },
}

test.each(Object.keys(services))('%s: requests and responses have a shape that V8 is fast with', async (name) => {
  const serve = await (services[name] as () => Promise<RequestListener>)()
  const seen: [request: object, response: object][] = []
  let closed = 0
  const { url, close } = await listen((request, response) => {
    seen.push([request, response])
    response.once('close', () => {
      closed += 1
    })
    serve(request, response)
  })
  onTestFinished(close)
  const send = (key: string) =>
    fetch(`${url}/work`, { method: 'POST', headers: { 'idempotency-key': key, 'content-type': 'application/json' }, body: '{}' })

  for (const key of ['a', 'b', 'a']) expect((await send(key)).status).toBe(201)

  await waitUntil('all exchanges are over', () => closed === 3)
  const isDictionary = name === 'express' && isParting
  expect(seen.flat().map(hasShape)).toEqual(Array(6).fill(!isDictionary))
  const [one, other] = seen
  expect([shareShape(one?.[0], other?.[0]), shareShape(one?.[1], other?.[1])]).toEqual([true, true])
})

test('requests of Express that are not protected stay as they are', async () => {
  const app = express()
  app.use(protectExpress(once(), options))
  const seen: object[] = []
  app.all('/work', (request, response) => {
    seen.push(request, response)
    response.end()
  })
  const { url, close } = await listen(app)
  onTestFinished(close)
  await fetch(`${url}/work`, { headers: { 'idempotency-key': 'a' } })
  await fetch(`${url}/work`, { method: 'POST' })
  expect(seen.map(hasShape)).toEqual(Array(4).fill(true))
})
