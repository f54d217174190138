// The run that a request is part of, for handlers that want to do better than to start over.
import type { IncomingMessage, RequestListener } from 'node:http'
import express from 'express'
import Koa from 'koa'
import { describe, expect, test } from 'vitest'
import * as onExpress from '../../src/adapters/express.js'
import * as onKoa from '../../src/adapters/koa.js'
import * as onNode from '../../src/adapters/node.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { onError, type Parts, startService, useQuietProcess } from './node-service.js'

const database = useDatabase()
useQuietProcess()

type Run = ReturnType<typeof onNode.runOf>
/** Its answer, or an error that it throws. */
type Work = (run: Run, native: unknown) => Promise<unknown>

const stacks: [name: string, stack: (parts: Parts, work: Work) => RequestListener][] = [
  [
    'node:http',
    ({ once, options }, work) =>
      onNode.idempotency(once, { ...options, onError })(async (request: IncomingMessage, response) => {
        response.end(JSON.stringify(await work(onNode.runOf(once, request) as Run, request)))
      }),
  ],
  [
    'Express 5',
    ({ once, options }, work) => {
      const app = express().set('env', 'test')
      app.use(onExpress.idempotency(once, options))
      app.use(async (request, response) => {
        response.json(await work(onExpress.runOf(once, request) as Run, request))
      })
      return app
    },
  ],
  [
    'Koa 3, by its context',
    ({ once, options }, work) => {
      const app = new Koa()
      app.silent = true
      app.use(onKoa.idempotency(once, options))
      app.use(async (ctx) => {
        ctx.body = JSON.stringify(await work(onKoa.runOf(once, ctx) as Run, ctx))
      })
      return app.callback()
    },
  ],
  [
    "Koa 3, by Node's request",
    ({ once, options }, work) => {
      const app = new Koa()
      app.silent = true
      app.use(onKoa.idempotency(once, options))
      app.use(async (ctx) => {
        ctx.body = JSON.stringify(await work(onKoa.runOf(once, ctx.req) as Run, ctx))
      })
      return app.callback()
    },
  ],
]

describe.each(stacks)('%s', (_, stack) => {
  test('a rerun resumes after the steps that are done, and knows its attempt and its keys', async () => {
    const seen: unknown[] = []
    const service = await startService(database, (parts) =>
      stack(parts, async (run) => {
        const order = await run?.phase('ordered', () => ({ order: parts.ran() }))
        const charge = await run?.call('charge', ({ key }) => ({ charged: key, by: parts.ran() }))
        seen.push([run?.attempt, run?.idempotencyKey, run?.key('mail')])
        if (run?.attempt === 1) throw new Error('the mail server is down')
        return { ...order, ...charge }
      }),
    )
    expect((await service.send()).status).toBe(500)
    const answered = await service.send()
    expect(JSON.parse(answered.body.toString())).toEqual({ order: 1, charged: expect.any(String), by: 2 })
    expect(seen).toEqual([
      [1, 'key-1', expect.any(String)],
      [2, 'key-1', (seen as string[][])[0]?.[2]],
    ])
    expect(service.runs()).toBe(2)
  })

  test('there is none for a request that is not protected', async () => {
    const service = await startService(database, (parts) => stack(parts, async (run) => run === undefined))
    expect((await service.send({ key: null })).body.toString()).toBe('true')
    expect((await service.send({ method: 'PUT' })).body.toString()).toBe('true')
  })

  test('on a store without steps it has its attempt and its keys', async () => {
    const service = await startService(
      database,
      (parts) =>
        stack(parts, async (run) => {
          const refusal = await run?.phase('ordered', () => 1).catch((error: { code: string }) => error.code)
          return [run?.attempt, typeof run?.key('mail'), refusal]
        }),
      { store: memoryStore() as never },
    )
    expect(JSON.parse((await service.send()).body.toString())).toEqual([1, 'string', 'steps_unsupported'])
  })
})
