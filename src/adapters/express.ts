import type { Request, RequestHandler } from 'express'
import type { Once } from '../create-once.js'
import { idempotencyOf } from '../http/idempotency.js'
import type { IdempotencyOptions, ServeOptions, StatusOptions } from '../http/options.js'
import { type Servable, type Service, serviceOf } from '../http/serve.js'
import { statusOf } from '../http/status.js'
import { type Message, type Receiver, type WebhookOptions, webhookOf } from '../http/webhook.js'
import { enter, type NodeExchange, respond } from './node/exchange.js'

export * from '../http/for-adapters.js'

/**
 * Protects the handlers behind it, in Express 4 and 5. Mount it behind authentication and before body parsers.
 *
 * @example app.use(idempotency(once, { tenant: (req) => req.user.id, afterFailure: 'rerun' }))
 */
export function idempotency<Tx>(once: Once<Tx>, options: IdempotencyOptions<Request>): RequestHandler {
  const layer = idempotencyOf(once, options)
  return function idempotencyMiddleware(request, response, next) {
    enter(layer, exchangeOf(request, response)).then((call) => call?.(() => next()), next)
  }
}

/**
 * Serves an operation.
 *
 * @example app.post('/orders', serve(createOrder, { tenant: (req) => req.user.id }))
 */
export function serve(operation: Servable, options: ServeOptions<Request>): RequestHandler {
  return answering(serviceOf(operation, options))
}

/**
 * Tells what became of operations that are served with `respond: 'async'`: their state, then their answer.
 *
 * @example app.get('/operations/:id', status(once, { tenant: (req) => req.user.id }))
 */
export function status<Tx>(once: Once<Tx>, options: StatusOptions<Request>): RequestHandler {
  return answering(statusOf(once, options))
}

/**
 * Receives webhooks for a consumer: verifies the signature, and does the work of each message once. Mount it before body parsers.
 *
 * @example app.post('/webhooks/stripe', webhook(onEvent, { verify: stripeWebhooks(stripe, secret) }))
 */
export function webhook<M extends Message>(consumer: Receiver<M>, options: WebhookOptions<Request, M>): RequestHandler {
  return answering(webhookOf(consumer, options))
}

function answering(service: Service<Request>): RequestHandler {
  return function serveOnce(request, response, next) {
    respond(service, exchangeOf(request, response)).catch(next)
  }
}

function exchangeOf(request: Request, response: Parameters<RequestHandler>[1]): NodeExchange<Request> {
  return { native: request, request, response, url: request.originalUrl }
}
