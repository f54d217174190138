import type { FastifyInstance, FastifyReply, FastifyRequest, RouteShorthandOptionsWithHandler } from 'fastify'
import type { Once } from '../create-once.js'
import { type Idempotency, idempotencyOf } from '../http/idempotency.js'
import type { IdempotencyOptions, ServeOptions } from '../http/options.js'
import type { HttpBody } from '../http/request.js'
import { type Servable, serviceOf } from '../http/serve.js'
import { enter, httpRequest, type NodeExchange, respond } from './node/exchange.js'

export * from '../http/for-adapters.js'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Other options of `idempotency()` for this route, or `false`: not protected. */
    idempotency?: Partial<IdempotencyOptions<FastifyRequest>> | false
  }
}

/**
 * A plugin that protects the handlers of the instance it is registered with. Register it behind authentication: it takes its turn as a
 * `preHandler` hook.
 *
 * @example await app.register(idempotency(once, { tenant: (request) => request.user.id, afterFailure: 'rerun' }))
 */
export function idempotency<Tx>(once: Once<Tx>, options: IdempotencyOptions<FastifyRequest>) {
  const standard = idempotencyOf(once, options)
  const byRoute = new WeakMap<object, Idempotency<FastifyRequest, Tx>>()

  async function idempotencyPlugin(app: FastifyInstance): Promise<void> {
    app.addHook('onRoute', ({ config }) => {
      // Now, so that a wrong option of a route is an error at start.
      if (config?.idempotency) layerWith(config.idempotency)
    })
    app.addHook('preParsing', async (request, reply, payload) => {
      const layer = layerOf(request)
      if (layer?.concerns(httpRequest(exchangeOf(request, reply), 0))) await keepBody(request, reply, payload, layer.maxBodyBytes)
      return payload
    })
    // Behind validation, so that what the schema refuses is not yet a use of the key.
    app.addHook('preHandler', async (request, reply) => {
      const layer = layerOf(request)
      if (layer && (await enter(layer, exchangeOf(request, reply))) === 'answered') reply.hijack()
    })
  }

  function layerOf({ is404, routeOptions: { config } }: FastifyRequest): Idempotency<FastifyRequest, Tx> | null {
    // Where there is no route there is nothing to protect, and tomorrow's deploy may bring it.
    if (is404 || config.idempotency === false) return null
    return config.idempotency ? layerWith(config.idempotency) : standard
  }

  function layerWith(own: Partial<IdempotencyOptions<FastifyRequest>>): Idempotency<FastifyRequest, Tx> {
    // A route that was there before the plugin was loaded comes here with its first request.
    const layer = byRoute.get(own) ?? idempotencyOf(once, { ...options, ...own })
    byRoute.set(own, layer)
    return layer
  }

  // As fastify-plugin does it: the hooks belong to the instance that registers it.
  return Object.assign(idempotencyPlugin, { [Symbol.for('skip-override')]: true, [Symbol.for('fastify.display-name')]: 'oncekey' })
}

/**
 * Serves an operation: the options of a route, with its handler.
 *
 * @example app.post('/orders', serve(createOrder, { tenant: (request) => request.user.id }))
 */
export function serve(operation: Servable, options: ServeOptions<FastifyRequest>): RouteShorthandOptionsWithHandler {
  const service = serviceOf(operation, options)
  return {
    // It protects itself.
    config: { idempotency: false },
    async preParsing(request, reply, payload) {
      await keepBody(request, reply, payload, service.maxBodyBytes)
      return payload
    },
    async handler(request, reply) {
      await respond(service, exchangeOf(request, reply))
      reply.hijack()
    },
  }
}

const bodies = new WeakMap<FastifyRequest, HttpBody>()

/** Fastify parses the body before any handler, and keeps no bytes. */
async function keepBody(request: FastifyRequest, reply: FastifyReply, payload: object, maxBytes: number): Promise<void> {
  // Somebody before us reads it and hands on what they make of it: only the parser's own bytes are left, if it has any.
  if (payload !== request.raw) return
  bodies.set(request, await httpRequest(exchangeOf(request, reply), maxBytes).body())
}

function exchangeOf(request: FastifyRequest, reply: FastifyReply): NodeExchange<FastifyRequest> {
  return {
    native: request,
    request: request.raw,
    response: reply.raw,
    url: request.originalUrl,
    parser: request,
    body: bodies.get(request),
    // Fastify keeps its headers to itself until the end.
    baseline: reply.getHeaders() as NodeExchange<FastifyRequest>['baseline'] & object,
  }
}
