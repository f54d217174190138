import type { Context, Handler, MiddlewareHandler } from 'hono'
import type { Once } from '../create-once.js'
import { idempotencyOf } from '../http/idempotency.js'
import type { IdempotencyOptions, ServeOptions } from '../http/options.js'
import { type Servable, serviceOf } from '../http/serve.js'
import { exchange, type FetchExchange, respond } from './fetch/exchange.js'

export * from '../http/for-adapters.js'

/**
 * Protects the handlers behind it. Mount it behind authentication.
 *
 * @example app.use(idempotency(once, { tenant: (c) => c.get('userId'), afterFailure: 'rerun' }))
 */
export function idempotency<Tx>(once: Once<Tx>, options: IdempotencyOptions<Context>): MiddlewareHandler {
  const layer = idempotencyOf(once, options)
  return async function idempotencyMiddleware(c, next) {
    const response = await exchange(layer, exchangeOf(c), async () => {
      await next()
      return c.res
    })
    if (response === c.res) return
    // Or Hono would add the headers of the one to the other.
    c.res = undefined
    c.res = response
  }
}

/**
 * Serves an operation.
 *
 * @example app.post('/orders', serve(createOrder, { tenant: (c) => c.get('userId') }))
 */
export function serve(operation: Servable, options: ServeOptions<Context>): Handler {
  const service = serviceOf(operation, options)
  return async function serveOperation(c) {
    const response = await respond(service, exchangeOf(c))
    c.res = undefined
    return response
  }
}

function exchangeOf(c: Context): FetchExchange<Context> {
  return {
    native: c,
    request: c.req.raw,
    baseline: new Headers(c.res.headers),
    async readBefore() {
      const { arrayBuffer, text } = c.req.bodyCache
      if (arrayBuffer) return new Uint8Array(await arrayBuffer)
      return text === undefined ? undefined : new TextEncoder().encode(await text)
    },
  }
}
