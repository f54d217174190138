import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import express from 'express'
import express4 from 'express-4'
import Koa from 'koa'
import type pg from 'pg'
import { afterEach, beforeEach, expect, onTestFinished } from 'vitest'
import { idempotency as protectExpress } from '../../src/adapters/express.js'
import { idempotency as protectKoa } from '../../src/adapters/koa.js'
import { idempotency as protectNode } from '../../src/adapters/node.js'
import { createOnce, type Once, type OnceEvent, type OnceOptions } from '../../src/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { type Answered, type Sent, send } from '../../src/testing/adapter-cases/client.js'
import { connectionTo } from '../support/postgres/connection.js'
import type { TestDatabase } from '../support/postgres/database.js'
import { listen } from './listen.js'

export type { Answered, Sent } from '../../src/testing/adapter-cases/client.js'

/** What an application of a test is built from. */
export interface Parts {
  readonly once: Once<pg.PoolClient>
  /** For `idempotency()`. */
  readonly options: { readonly tenant: () => string; readonly afterFailure: 'rerun' }
  /** Handlers call it when they run; the number of the run. */
  ran(): number
}

export interface Service {
  readonly url: string
  readonly tenant: string
  readonly once: Once<pg.PoolClient>
  runs(): number
  events(): OnceEvent['type'][]
  /** By default a POST of JSON to `/work` with a key. */
  send(request?: Partial<Sent>): Promise<Answered>
  /** The state of the key of the default request, or of another path. */
  keyState(path?: string): Promise<string | undefined>
}

/** Longer than any test may take, on any machine. */
const lease = '10m'
const storeTimeout = '10m'

/** A server of the test's own, with a tenant of its own. */
export async function startService(
  { pool }: TestDatabase,
  build: (parts: Parts) => RequestListener | Server,
  onceOptions: Partial<OnceOptions<pg.PoolClient>> = {},
): Promise<Service> {
  const tenant = `tenant-${crypto.randomUUID()}`
  const events: OnceEvent[] = []
  const store = postgresStore(connectionTo(pool))
  const once = createOnce<pg.PoolClient>({ store, lease, storeTimeout, onEvent: (event) => events.push(event), ...onceOptions })
  let runs = 0
  const ran = () => {
    runs += 1
    return runs
  }
  const { url, close } = await listen(build({ once, options: { tenant: () => tenant, afterFailure: 'rerun' }, ran }))
  onTestFinished(close)
  const standard: Sent = {
    method: 'POST',
    path: '/work',
    key: '"key-1"',
    tenant,
    headers: { 'content-type': 'application/json' },
    body: '{"item":"tea"}',
  }
  return {
    url,
    tenant,
    once,
    runs: () => runs,
    events: () => events.map(({ type }) => type),
    send: (request = {}) => send(url, { ...standard, ...request }),
    keyState: async (path = '/work') => (await store.keyRead({ tenant, scope: `POST ${path}`, key: 'key-1' }))?.state,
  }
}

export type Handler = (request: IncomingMessage, response: ServerResponse) => unknown

/** `before` is middleware in front of the layer that takes its time. */
export type Stack = (handler: Handler, parts: Parts, before?: (request: IncomingMessage) => Promise<void>) => RequestListener

const onExpress = (framework: typeof express): Stack => {
  return (handler, { once, options }, before = async () => {}) => {
    const app = framework()
    app.set('env', 'test')
    app.use((request, _response, next) => void before(request).then(() => next(), next))
    app.use(protectExpress(once, options))
    app.use(async (request, response, next) => {
      try {
        await handler(request, response)
      } catch (error) {
        next(error)
      }
    })
    return app
  }
}

/** Ways to run one handler of Node's own kind. */
export const stacks: [name: string, stack: Stack][] = [
  [
    'node:http',
    (handler, { once, options }, before = async () => {}) => {
      const listener = protectNode(once, { ...options, onError })(handler)
      return (request, response) => void before(request).then(() => listener(request, response))
    },
  ],
  ['Express 5', onExpress(express)],
  ['Express 4', onExpress(express4)],
  [
    'Koa 3',
    (handler, { once, options }, before = async () => {}) => {
      const app = new Koa()
      app.silent = true
      app.use((ctx, next) => before(ctx.req).then(next))
      app.use(protectKoa(once, options))
      app.use(async (ctx) => {
        ctx.respond = false
        ctx.status = 200
        await handler(ctx.req, ctx.res)
      })
      return app.callback()
    },
  ],
]

/** As the standard one, but tests fail on purpose and nobody need read of it. */
export function onError(_error: unknown, _request: IncomingMessage, response: ServerResponse): void {
  if (response.writableEnded) return
  if (response.headersSent) response.destroy()
  else response.writeHead(500).end()
}

export const isReplay = (answered: Answered) => answered.lines('idempotent-replayed').includes('true')

/** Sends a request twice: the handler ran once, and both answers are alike. Returns the first. */
export async function replaysAlike(service: Service, request: Partial<Sent> = {}, names: readonly string[] = []): Promise<Answered> {
  const first = await service.send(request)
  const again = await service.send(request)
  expect(again.status).toBe(first.status)
  expect(again.body.equals(first.body)).toBe(true)
  for (const name of ['content-type', ...names]) expect([name, again.lines(name)]).toEqual([name, first.lines(name)])
  expect([isReplay(first), isReplay(again), service.runs()]).toEqual([false, true, 1])
  return first
}

/** Warnings and stray rejections are what a process dies of later: a test that causes one fails. */
export function useQuietProcess(): void {
  const noises: unknown[] = []
  const hear = (noise: unknown) => {
    // Said on purpose of answers over the cap, which some of these tests send.
    if ((noise as { code?: unknown }).code !== 'ONCEKEY_ANSWER') noises.push(noise)
  }
  beforeEach(() => {
    noises.length = 0
    process.on('warning', hear).on('unhandledRejection', hear)
  })
  afterEach(async () => {
    // Rejections that nobody handles are told at the end of a turn.
    await new Promise((resolve) => setImmediate(resolve))
    process.off('warning', hear).off('unhandledRejection', hear)
    expect(noises).toEqual([])
  })
}
