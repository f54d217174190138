import type { Once } from '../create-once.js'
import { idempotencyOf } from '../http/idempotency.js'
import type { IdempotencyOptions, ServeOptions } from '../http/options.js'
import { type Servable, serviceOf } from '../http/serve.js'
import { exchange, respond } from './fetch/exchange.js'

export * from '../http/for-adapters.js'

type Handler<Rest extends unknown[]> = (request: Request, ...rest: Rest) => Response | Promise<Response>

/**
 * Protects a handler of the Fetch kind: a Next.js route handler, Bun.serve, Deno.serve, a worker.
 *
 * @example export const POST = idempotency(once, { tenant, afterFailure: 'rerun' })(async (request) => Response.json(…))
 */
export function idempotency<Tx>(once: Once<Tx>, options: IdempotencyOptions<Request>) {
  const layer = idempotencyOf(once, options)
  return <Rest extends unknown[]>(handler: Handler<Rest>) =>
    async function idempotentHandler(request: Request, ...rest: Rest): Promise<Response> {
      return exchange(layer, { native: request, request, baseline: new Headers() }, async () => handler(request, ...rest))
    }
}

/**
 * Serves an operation.
 *
 * @example export const POST = serve(createOrder, { tenant: async (request) => (await session(request)).userId })
 */
export function serve(operation: Servable, options: ServeOptions<Request>): (request: Request) => Promise<Response> {
  const service = serviceOf(operation, options)
  return async function serveOperation(request) {
    return respond(service, { native: request, request, baseline: new Headers() })
  }
}
