import type { Context, Env, Handler, HonoRequest, MiddlewareHandler } from 'hono'
import type { Once } from '../create-once.js'
import { idempotencyOf } from '../http/idempotency.js'
import type { IdempotencyOptions, ServeOptions, StatusOptions } from '../http/options.js'
import { type Servable, type Service, serviceOf } from '../http/serve.js'
import { statusOf } from '../http/status.js'
import { type Message, type Receiver, type WebhookOptions, webhookOf } from '../http/webhook.js'
import { exchange, type FetchExchange, respond } from './fetch/exchange.js'
import type { KeptBody } from './fetch/request-body.js'
import { placeBehind } from './hono/place-behind.js'

export * from '../http/for-adapters.js'

/**
 * Protects the handlers behind it. Mount it behind authentication.
 *
 * @example app.use(idempotency(once, { tenant: (c) => c.get('userId'), afterFailure: 'rerun' }))
 */
// biome-ignore lint/suspicious/noExplicitAny: as Hono has it, for an application without an environment of its own.
export function idempotency<Tx, E extends Env = any>(once: Once<Tx>, options: IdempotencyOptions<Context<E>>): MiddlewareHandler<E> {
  const layer = idempotencyOf(once, options)
  return async function idempotencyMiddleware(c, next) {
    const place = placeBehind(c)
    const way = await exchange(layer, exchangeOf(c), () => place.answer(next))
    if (way === 'pass') await next()
    else if (!place.isAnsweredInFront()) replaceResponse(c, way)
    // It is not read: what flows ends unheard.
    else await way.body?.cancel()
  }
}

/**
 * Serves an operation.
 *
 * @example app.post('/orders', serve(createOrder, { tenant: (c) => c.get('userId') }))
 */
// biome-ignore lint/suspicious/noExplicitAny: as above.
export function serve<E extends Env = any>(operation: Servable, options: ServeOptions<Context<E>>): Handler<E> {
  return answering(serviceOf(operation, options))
}

/**
 * Tells what became of operations that are served with `respond: 'async'`: their state, then their answer.
 *
 * @example app.get('/operations/:id', status(once, { tenant: (c) => c.get('userId') }))
 */
// biome-ignore lint/suspicious/noExplicitAny: as above.
export function status<Tx, E extends Env = any>(once: Once<Tx>, options: StatusOptions<Context<E>>): Handler<E> {
  return answering(statusOf(once, options))
}

/**
 * Receives webhooks for a consumer: verifies the signature, and does the work of each message once.
 *
 * @example app.post('/webhooks/stripe', webhook(onEvent, { verify: stripeWebhooks(stripe, secret) }))
 */
// biome-ignore lint/suspicious/noExplicitAny: as above.
export function webhook<M extends Message, E extends Env = any>(consumer: Receiver<M>, options: WebhookOptions<Context<E>, M>): Handler<E> {
  return answering(webhookOf(consumer, options))
}

function answering<E extends Env>(service: Service<Context<E>>): Handler<E> {
  return async function serveOnce(c) {
    const response = await respond(service, exchangeOf(c))
    replaceResponse(c, response)
    return response
  }
}

/** Set over another one, Hono would add the headers of that to it. */
function replaceResponse(c: Context, response: Response): void {
  c.res = undefined
  c.res = response
}

function exchangeOf<E extends Env>(c: Context<E>): FetchExchange<Context<E>> {
  return {
    native: c,
    request: c.req.raw,
    baseline() {
      // Not `c.res`, which would make a response, and then Hono adds its headers to whatever the handler returns.
      const headers = new Headers(c.newResponse(null).headers)
      return headers.keys().next().done ? undefined : headers
    },
    keptBody: () => keptBody(c.req),
    waitUntil: waitUntilOf(c),
  }
}

/** Workers stop when the client has gone, unless they are told to wait. Elsewhere the getter throws, which takes 10 µs on Node. */
function waitUntilOf(c: Context): FetchExchange<Context>['waitUntil'] {
  if (c.env?.incoming) return undefined
  try {
    const { executionCtx } = c
    return (work) => executionCtx.waitUntil(work)
  } catch {
    return undefined
  }
}

/**
 * What Hono has kept of a body that was read through `c.req`. A text is as good as the bytes: later readers of the body get
 * that text, too.
 */
async function keptBody({ bodyCache }: HonoRequest): Promise<KeptBody | undefined> {
  const { arrayBuffer, blob, text, json, formData } = bodyCache
  if (arrayBuffer) return { bytes: new Uint8Array(await arrayBuffer) }
  if (blob) return { bytes: new Uint8Array(await (await blob).arrayBuffer()) }
  if (text !== undefined) return { bytes: new TextEncoder().encode(await text) }
  if (json !== undefined) return { parsed: await json }
  if (formData) return { parsed: [...(await formData)].map(([name, value]) => [name, typeof value === 'string' ? value : fileOf(value)]) }
  return undefined
}

/** Its contents would have to be read once more: a form that was parsed is compared without them. */
const fileOf = ({ name, size, type }: File) => ({ name, size, type })
