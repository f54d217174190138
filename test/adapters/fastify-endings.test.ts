import { Readable } from 'node:stream'
import type { RouteHandlerMethod } from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import { Gate } from '../../src/testing/adapter-cases/adapter-case.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { exerciseEndings } from './endings.js'
import { startProtected } from './fastify-app.js'
import { isReplay, jsonOf, type Service, textOf } from './service.js'

const database = useDatabase()

exerciseEndings(database, async ({ service, options, handle }) => {
  const { app, url } = await startProtected(
    database,
    (building) => {
      building.post('/work', async (request) => handle(request))
    },
    { service, options },
  )
  return { url, close: () => app.close() }
})

test('a stream that breaks half-way ends the connection and the attempt: a retry runs again', async () => {
  let runs = 0
  const service = await startProtected(database, (app) => {
    app.post('/work', async (_request, reply) => {
      runs += 1
      return reply.send(Readable.from(runs === 1 ? broken() : ['whole']))
    })
  })
  await expect(service.send()).rejects.toThrow('socket hang up')
  await waitUntil('the key is given back', () => service.events.includes('released'))
  expect(textOf(await service.send())).toBe('whole')
})

test('a stream that breaks before its first piece is a 500', async () => {
  const service = await startProtected(database, (app) => {
    app.post('/work', async (_request, reply) =>
      reply.send(new Readable({ read: (_) => {}, construct: (done) => done(new Error('no file')) })),
    )
  })
  expect((await service.send()).status).toBe(500)
  expect(service.events).toContain('released')
})

async function* broken() {
  yield 'half'
  await new Promise((resolve) => setImmediate(resolve))
  throw new Error('the disk is gone')
}

const bare = { body: null, headers: {} }

/** The same without the timeout, so that it does not matter how slow this machine is. */
const patiently = (service: Service, handler: RouteHandlerMethod) =>
  startProtected(database, (app) => void app.post('/work', handler), { service })

test("Fastify's handlerTimeout: its 503 ends the attempt, and what the handler answers later harms nobody", async () => {
  const go = new Gate()
  onTestFinished(go.open)
  /** With a timeout that is long enough for the handler to begin, and no longer. */
  async function timedOut(handlerTimeout = 50): Promise<Service> {
    let hasBegun = false
    const hang = async () => {
      hasBegun = true
      await go.opened
      return 'late'
    }
    const service = await startProtected(database, (app) => void app.post('/work', { handlerTimeout }, hang))
    expect((await service.send(bare)).status).toBe(503)
    return hasBegun ? service : timedOut(handlerTimeout * 2)
  }
  const service = await timedOut()
  await waitUntil('the key is given back', () => service.events.includes('released'))
  expect(service.events).toEqual(['executing', 'released'])
  go.open()
  const again = await (await patiently(service, async () => 'in time')).send(bare)
  expect([textOf(again), isReplay(again)]).toEqual(['in time', false])
})

test("Fastify's handlerTimeout while the key is being claimed: 503; the work is done all the same, and a retry replays it", async () => {
  const go = new Gate()
  let runs = 0
  const work = async () => ({ runs: ++runs })
  const before = (verb: string) => (verb === 'keyClaim' ? go.opened : undefined)
  const service = await startProtected(database, (app) => void app.post('/work', { handlerTimeout: 50 }, work), {
    once: { before, storeTimeout: '10m' },
  })
  expect((await service.send(bare)).status).toBe(503)
  go.open()
  await waitUntil('the answer is stored', async () => (await service.stateOf()) === 'complete')
  const again = await (await patiently(service, work)).send(bare)
  expect([again.status, isReplay(again), jsonOf(again)]).toEqual([200, true, { runs: 1 }])
})
