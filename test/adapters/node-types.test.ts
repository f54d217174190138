import { createServer, type IncomingMessage } from 'node:http'
import { createServer as createHttp2Server, type Http2ServerRequest, type Http2ServerResponse } from 'node:http2'
import express, { type Request, type RequestHandler } from 'express'
import Koa, { type Context, type Middleware } from 'koa'
import { expectTypeOf, test } from 'vitest'
import * as onExpress from '../../src/adapters/express.js'
import * as onKoa from '../../src/adapters/koa.js'
import * as onNode from '../../src/adapters/node.js'
import type { Once, Operation } from '../../src/index.js'

declare const once: Once<'tx'>
declare const operation: Operation<unknown, never>

test("knows the framework's request, and insists on what has no default", () => {
  expectTypeOf<Parameters<typeof onExpress.idempotency>[1]>().toEqualTypeOf<onExpress.IdempotencyOptions<Request>>()
  expectTypeOf<Parameters<typeof onKoa.idempotency>[1]>().toEqualTypeOf<onKoa.IdempotencyOptions<Context>>()
  expectTypeOf<Parameters<typeof onNode.idempotency>[1]>().toExtend<onNode.IdempotencyOptions<IncomingMessage>>()
  expectTypeOf<ReturnType<typeof onExpress.serve>>().toEqualTypeOf<RequestHandler>()
  expectTypeOf<ReturnType<typeof onKoa.serve>>().toEqualTypeOf<Middleware>()
  expectTypeOf([writtenForExpress, writtenForKoa, writtenForNode]).toBeArray()
})

// Compiled, and never called.
function writtenForExpress() {
  const app = express()
  app.use(onExpress.idempotency(once, { tenant: (request) => request.get('x-tenant') ?? request.ip ?? '', afterFailure: 'park' }))
  app.post('/', onExpress.serve(operation, { tenant: 'single', input: ({ params }, body) => ({ params, body }) }))
  // @ts-expect-error whose key it is must be said
  onExpress.idempotency(once, { afterFailure: 'rerun' })
  // @ts-expect-error what becomes of a failure must be said
  onExpress.idempotency(once, { tenant: 'single' })
  // @ts-expect-error there is no such choice
  onExpress.idempotency(once, { tenant: 'single', afterFailure: 'ignore' })
  // @ts-expect-error a request of Express has no such thing
  onExpress.idempotency(once, { tenant: (request) => request.nothing, afterFailure: 'rerun' })
  // @ts-expect-error whose key it is must be said here, too
  onExpress.serve(operation, {})
  // @ts-expect-error an operation knows what becomes of its failures
  onExpress.serve(operation, { tenant: 'single', afterFailure: 'rerun' })
}

function writtenForKoa() {
  const app = new Koa()
  app.use(onKoa.idempotency(once, { tenant: (ctx) => ctx.state.user.id, afterFailure: 'store' }))
  app.use(onKoa.serve(operation, { tenant: (ctx) => ctx.ip }))
  // @ts-expect-error whose key it is must be said
  onKoa.idempotency(once, { afterFailure: 'rerun' })
  // @ts-expect-error what becomes of a failure must be said
  onKoa.idempotency(once, { tenant: 'single' })
  // @ts-expect-error there is no such choice
  onKoa.idempotency(once, { tenant: 'single', afterFailure: 'ignore' })
  // @ts-expect-error a number is no tenant
  onKoa.idempotency(once, { tenant: (ctx) => ctx.ip.length, afterFailure: 'rerun' })
  // @ts-expect-error whose key it is must be said here, too
  onKoa.serve(operation, {})
  // @ts-expect-error an operation knows what becomes of its failures
  onKoa.serve(operation, { tenant: 'single', afterFailure: 'rerun' })
}

function writtenForNode() {
  const protect = onNode.idempotency(once, { tenant: ({ headers }) => headers.authorization ?? '', afterFailure: 'rerun' })
  createServer(protect((_request, response) => response.end()))
  createHttp2Server(protect((request: Http2ServerRequest, response: Http2ServerResponse) => response.end(String(request.stream.id))))
  createServer(onNode.serve(operation, { tenant: 'single', onError: (_error, _request, response) => response.end() }))
  // @ts-expect-error whose key it is must be said
  onNode.idempotency(once, { afterFailure: 'rerun' })
  // @ts-expect-error what becomes of a failure must be said
  onNode.idempotency(once, { tenant: 'single' })
  // @ts-expect-error there is no such choice
  onNode.idempotency(once, { tenant: 'single', afterFailure: 'ignore' })
  // @ts-expect-error a request of Node has no such thing
  onNode.idempotency(once, { tenant: (request) => request.ip, afterFailure: 'rerun' })
  // @ts-expect-error whose key it is must be said here, too
  onNode.serve(operation, {})
  // @ts-expect-error an operation knows what becomes of its failures
  onNode.serve(operation, { tenant: 'single', afterFailure: 'rerun' })
}
