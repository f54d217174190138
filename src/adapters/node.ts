import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2'
import type { Once } from '../create-once.js'
import { idempotencyOf } from '../http/idempotency.js'
import type { IdempotencyOptions, ServeOptions, StatusOptions } from '../http/options.js'
import { type Servable, type Service, serviceOf } from '../http/serve.js'
import { statusOf } from '../http/status.js'
import { type Message, type Receiver, type WebhookOptions, webhookOf } from '../http/webhook.js'
import { enter, respond } from './node/exchange.js'
import { type ErrorHandler, guarded } from './node/guarded-listener.js'

export * from '../http/for-adapters.js'

/** What `node:http` has no framework for. */
export interface NodeOptions {
  /**
   * Answers what was thrown: by the listener or the operation, by a function among the options, or by a store that fails. Default: a 500
   * without a body, and the error is printed. Whatever it does, the process goes on.
   */
  onError?: ErrorHandler
}

type Listener = (request: IncomingMessage, response: ServerResponse) => unknown
type Http2Listener = (request: Http2ServerRequest, response: Http2ServerResponse) => unknown

interface Protect {
  (listener: Listener): Listener
  (listener: Http2Listener): Http2Listener
}

/**
 * Protects a request listener of `node:http`, or of `node:http2`.
 *
 * @example createServer(idempotency(once, { tenant, afterFailure: 'rerun' })((request, response) => { … }))
 */
export function idempotency<Tx>(once: Once<Tx>, options: IdempotencyOptions<IncomingMessage> & NodeOptions): Protect {
  const layer = idempotencyOf(once, options)
  const protect = (listener: Listener): Listener =>
    guarded(options.onError, async (request, response) => {
      const call = await enter(layer, { native: request, request, response })
      await call?.(() => listener(request, response))
    })
  return protect as Protect
}

/** Serves an operation. */
export function serve(operation: Servable, options: ServeOptions<IncomingMessage> & NodeOptions) {
  return answering(serviceOf(operation, options), options)
}

/** Tells what became of operations that are served with `respond: 'async'`: their state, then their answer. */
export function status<Tx>(once: Once<Tx>, options: StatusOptions<IncomingMessage> & NodeOptions) {
  return answering(statusOf(once, options), options)
}

/** Receives webhooks for a consumer: verifies the signature, and does the work of each message once. */
export function webhook<M extends Message>(consumer: Receiver<M>, options: WebhookOptions<IncomingMessage, M> & NodeOptions) {
  return answering(webhookOf(consumer, options), options)
}

function answering(service: Service<IncomingMessage>, { onError }: NodeOptions) {
  return guarded(onError, (request, response) => respond(service, { native: request, request, response }))
}
