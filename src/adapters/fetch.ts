import type { Once } from '../create-once.js'
import { idempotencyOf } from '../http/idempotency.js'
import type { IdempotencyOptions, ServeOptions, StatusOptions } from '../http/options.js'
import { type Servable, type Service, serviceOf } from '../http/serve.js'
import { statusOf } from '../http/status.js'
import { type Message, type Receiver, type WebhookOptions, webhookOf } from '../http/webhook.js'
import { exchange, type FetchExchange, respond } from './fetch/exchange.js'

export * from '../http/for-adapters.js'

type Handler<Req extends Request, Rest extends unknown[]> = (request: Req, ...rest: Rest) => Response | Promise<Response>

/**
 * Protects a handler of the Fetch kind: a Next.js route handler, Bun.serve, Deno.serve, a worker. What else it is called with is passed on.
 *
 * @example export const POST = idempotency(once, { tenant, afterFailure: 'rerun' })(async (request) => Response.json(…))
 */
export function idempotency<Tx, Native extends Request = Request>(once: Once<Tx>, options: IdempotencyOptions<Native>) {
  const layer = idempotencyOf(once, options)
  return <Req extends Native, Rest extends unknown[]>(handler: Handler<Req, Rest>) =>
    async function idempotentHandler(request: Req, ...rest: Rest): Promise<Response> {
      const way = await exchange(layer, exchangeOf<Native>(request, rest), async () => handler(request, ...rest))
      return way === 'pass' ? handler(request, ...rest) : way
    }
}

/**
 * Serves an operation.
 *
 * @example export const POST = serve(createOrder, { tenant: async (request) => (await session(request)).userId })
 */
export function serve<Native extends Request = Request>(operation: Servable, options: ServeOptions<Native>) {
  return answering(serviceOf(operation, options))
}

/**
 * Tells what became of operations that are served with `respond: 'async'`: their state, then their answer.
 *
 * @example export const GET = status(once, { tenant: async (request) => (await session(request)).userId })
 */
export function status<Tx, Native extends Request = Request>(once: Once<Tx>, options: StatusOptions<Native>) {
  return answering(statusOf(once, options))
}

/**
 * Receives webhooks for a consumer: verifies the signature, and does the work of each message once.
 *
 * @example export const POST = webhook(onEvent, { verify: stripeWebhooks(stripe, secret) })
 */
export function webhook<M extends Message, Native extends Request = Request>(consumer: Receiver<M>, options: WebhookOptions<Native, M>) {
  return answering(webhookOf(consumer, options))
}

function answering<Native extends Request>(service: Service<Native>) {
  return async function serveOnce(request: Native, ...rest: unknown[]): Promise<Response> {
    return respond(service, exchangeOf(request, rest))
  }
}

function exchangeOf<Native extends Request>(request: Native, rest: readonly unknown[]): FetchExchange<Native> {
  const context = rest.find(isExecutionContext)
  return { native: request, request, waitUntil: context && ((work) => context.waitUntil(work)) }
}

/** Workers are called with one, and stop when the client has gone unless they are told to wait. */
function isExecutionContext(argument: unknown): argument is { waitUntil(work: Promise<unknown>): void } {
  return typeof (argument as { waitUntil?: unknown } | null | undefined)?.waitUntil === 'function'
}
