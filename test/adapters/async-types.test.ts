// What the compiler says of `respond: 'async'` and `status()`, in every adapter.
import type { RequestHandler } from 'express'
import type { RouteShorthandOptionsWithHandler } from 'fastify'
import type { Context, Handler } from 'hono'
import type { Middleware } from 'koa'
import { expectTypeOf, test } from 'vitest'
import * as express from '../../src/adapters/express.js'
import * as fastify from '../../src/adapters/fastify.js'
import * as fetching from '../../src/adapters/fetch.js'
import * as hono from '../../src/adapters/hono.js'
import * as koa from '../../src/adapters/koa.js'
import * as nest from '../../src/adapters/nest.js'
import * as node from '../../src/adapters/node.js'
import type { Once, Operation } from '../../src/index.js'

declare const once: Once<'tx'>
declare const operation: Operation<{ amount: number }, never>

type Typed = { Variables: { userId: string } }

test('each is what its framework takes', () => {
  expectTypeOf(written).toBeFunction()
  expectTypeOf<ReturnType<typeof express.status>>().toEqualTypeOf<RequestHandler>()
  expectTypeOf<ReturnType<typeof fastify.status>>().toEqualTypeOf<RouteShorthandOptionsWithHandler>()
  expectTypeOf<ReturnType<typeof hono.status<'tx', Typed>>>().toEqualTypeOf<Handler<Typed>>()
  expectTypeOf<ReturnType<typeof koa.status>>().toEqualTypeOf<Middleware>()
  expectTypeOf<ReturnType<ReturnType<typeof fetching.status>>>().toEqualTypeOf<Promise<Response>>()
  expectTypeOf<ReturnType<ReturnType<typeof nest.status>>>().toEqualTypeOf<Promise<void>>()
  expectTypeOf<ReturnType<ReturnType<typeof node.status>>>().toEqualTypeOf<Promise<void>>()
})

// Compiled, and never called.
function written() {
  const location = (id: string) => `/operations/${id}`
  const options = { tenant: 'single', respond: 'async', location, pollAfter: '5s' } as const
  express.serve(operation, options)
  fastify.serve(operation, options)
  fetching.serve(operation, options)
  hono.serve(operation, options)
  koa.serve(operation, options)
  nest.serve(operation, options)
  node.serve(operation, options)
  // `location` and the others know what the framework calls a request.
  express.serve(operation, { tenant: (req) => req.ip ?? '', respond: 'async', location: (id, req) => `${req.baseUrl}/${id}` })
  fastify.serve(operation, { tenant: (request) => request.ip, respond: 'async', location: (id, request) => `${request.hostname}/${id}` })
  koa.serve(operation, { tenant: (ctx) => ctx.ip, respond: 'async', location: (id, ctx) => `${ctx.origin}/${id}` })
  hono.serve(operation, {
    tenant: (c: Context<Typed>) => c.get('userId'),
    respond: 'async',
    location: (id, c) => `/${c.get('userId')}/${id}`,
  })
  fetching.serve(operation, { tenant: (request) => request.url, respond: 'async', location: (id, request) => `${request.url}/${id}` })
  express.status(once, { tenant: (req) => req.ip ?? '', id: (req) => req.params.id as string })
  hono.status(once, { tenant: (c: Context<Typed>) => c.get('userId'), id: (c) => c.req.param('id') })
  node.status(once, { tenant: 'single', onError: () => {} })

  // @ts-expect-error a client must be told where to look
  express.serve(operation, { tenant: 'single', respond: 'async' })
  // @ts-expect-error an address alone does not tell which operation
  express.serve(operation, { tenant: 'single', respond: 'async', location: '/operations' })
  // @ts-expect-error nobody would be told of it
  express.serve(operation, { tenant: 'single', location })
  // @ts-expect-error there is no such way to respond
  express.serve(operation, { tenant: 'single', respond: 'later', location })
  // @ts-expect-error whose operation it is must be said
  express.status(once, {})
}
