import type { Context, Middleware } from 'koa'
import type { Once } from '../create-once.js'
import { idempotencyOf } from '../http/idempotency.js'
import type { IdempotencyOptions, ServeOptions, StatusOptions } from '../http/options.js'
import { type Servable, type Service, serviceOf } from '../http/serve.js'
import { statusOf } from '../http/status.js'
import { type Message, type Receiver, type WebhookOptions, webhookOf } from '../http/webhook.js'
import { answerWith } from './koa/context-answer.js'
import { runHeld } from './koa/held-run.js'
import { answerOf, begin, type NodeExchange } from './node/exchange.js'

export * from '../http/for-adapters.js'

/**
 * Protects the middleware behind it. Mount it behind authentication and before body parsers.
 *
 * @example app.use(idempotency(once, { tenant: (ctx) => ctx.state.user.id, afterFailure: 'rerun' }))
 */
export function idempotency<Tx>(once: Once<Tx>, options: IdempotencyOptions<Context>): Middleware {
  const layer = idempotencyOf(once, options)
  return async function idempotencyMiddleware(ctx, next) {
    const begun = await begin(layer, exchangeOf(ctx))
    if (begun.kind === 'pass') await next()
    else if (begun.kind === 'answer') answerWith(ctx, begun.answer)
    else await runHeld(ctx, next, begun, layer.maxAnswerBytes)
  }
}

/**
 * Serves an operation.
 *
 * @example router.post('/orders', serve(createOrder, { tenant: (ctx) => ctx.state.user.id }))
 */
export function serve(operation: Servable, options: ServeOptions<Context>): Middleware {
  return answering(serviceOf(operation, options))
}

/**
 * Tells what became of operations that are served with `respond: 'async'`: their state, then their answer.
 *
 * @example router.get('/operations/:id', status(once, { tenant: (ctx) => ctx.state.user.id }))
 */
export function status<Tx>(once: Once<Tx>, options: StatusOptions<Context>): Middleware {
  return answering(statusOf(once, options))
}

/**
 * Receives webhooks for a consumer: verifies the signature, and does the work of each message once. Mount it before body parsers.
 *
 * @example router.post('/webhooks/stripe', webhook(onEvent, { verify: stripeWebhooks(stripe, secret) }))
 */
export function webhook<M extends Message>(consumer: Receiver<M>, options: WebhookOptions<Context, M>): Middleware {
  return answering(webhookOf(consumer, options))
}

function answering(service: Service<Context>): Middleware {
  return async function serveOnce(ctx) {
    answerWith(ctx, await answerOf(service, exchangeOf(ctx)))
  }
}

function exchangeOf(ctx: Context): NodeExchange<Context> {
  return { native: ctx, request: ctx.req, response: ctx.res, url: ctx.originalUrl, parser: ctx.request }
}
