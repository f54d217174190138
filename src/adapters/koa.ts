import type { Context, Middleware } from 'koa'
import type { Once } from '../create-once.js'
import { idempotencyOf } from '../http/idempotency.js'
import type { IdempotencyOptions, ServeOptions } from '../http/options.js'
import { type Servable, serviceOf } from '../http/serve.js'
import { enter, type NodeExchange, respond } from './node/exchange.js'

export * from '../http/for-adapters.js'

/**
 * Protects the middleware behind it. Mount it behind authentication and before body parsers.
 *
 * @example app.use(idempotency(once, { tenant: (ctx) => ctx.state.user.id, afterFailure: 'rerun' }))
 */
export function idempotency<Tx>(once: Once<Tx>, options: IdempotencyOptions<Context>): Middleware {
  const layer = idempotencyOf(once, options)
  return async function idempotencyMiddleware(ctx, next) {
    const way = await enter(layer, exchangeOf(ctx))
    if (way === 'answered') ctx.respond = false
    else if (way === 'pass') await next()
    else await whileHeld(ctx, next)
  }
}

/**
 * Serves an operation.
 *
 * @example router.post('/orders', serve(createOrder, { tenant: (ctx) => ctx.state.user.id }))
 */
export function serve(operation: Servable, options: ServeOptions<Context>): Middleware {
  const service = serviceOf(operation, options)
  return async function serveOperation(ctx) {
    await respond(service, exchangeOf(ctx))
    ctx.respond = false
  }
}

function exchangeOf(ctx: Context): NodeExchange<Context> {
  return { native: ctx, request: ctx.req, response: ctx.res, url: ctx.originalUrl, parser: ctx.request }
}

/**
 * Koa answers 500 when the connection breaks under a request, and leaves it to the socket that nobody gets it. A held response has no
 * socket, and the work is still going on: until it is done, such an error is told to the application, and no more.
 */
async function whileHeld(ctx: Context, next: () => Promise<unknown>): Promise<void> {
  const { onerror } = ctx
  ctx.onerror = (error) => {
    if (error) ctx.app.emit('error', error, ctx)
  }
  try {
    await next()
  } finally {
    ctx.onerror = onerror
  }
}
