import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Once } from '../create-once.js'
import { idempotencyOf } from '../http/idempotency.js'
import type { IdempotencyOptions, ServeOptions } from '../http/options.js'
import { type Servable, serviceOf } from '../http/serve.js'
import { enter, respond } from './node/exchange.js'

export * from '../http/for-adapters.js'

type Listener = (request: IncomingMessage, response: ServerResponse) => unknown

/**
 * Protects a request listener of `node:http`.
 *
 * @example createServer(idempotency(once, { tenant, afterFailure: 'rerun' })((request, response) => { … }))
 */
export function idempotency<Tx>(once: Once<Tx>, options: IdempotencyOptions<IncomingMessage>): (listener: Listener) => Listener {
  const layer = idempotencyOf(once, options)
  return (listener) =>
    async function idempotentListener(request, response) {
      const way = await enter(layer, { native: request, request, response })
      if (way !== 'answered') await listener(request, response)
    }
}

/** Serves an operation. What its body throws comes out of the returned promise, and nothing is sent. */
export function serve(operation: Servable, options: ServeOptions<IncomingMessage>) {
  const service = serviceOf(operation, options)
  return async function serveOperation(request: IncomingMessage, response: ServerResponse): Promise<void> {
    await respond(service, { native: request, request, response })
  }
}
