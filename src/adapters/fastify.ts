import type { FastifyContextConfig, FastifyInstance, FastifyReply, FastifyRequest, RouteShorthandOptionsWithHandler } from 'fastify'
import type { Answer } from '../core/answer.js'
import type { Once } from '../create-once.js'
import { type Idempotency, idempotencyOf } from '../http/idempotency.js'
import type { IdempotencyOptions, ServeOptions, StatusOptions } from '../http/options.js'
import { type Servable, type Service, serviceOf } from '../http/serve.js'
import { statusOf } from '../http/status.js'
import { type Message, type Receiver, type WebhookOptions, webhookOf } from '../http/webhook.js'
import { exchangeOf, incomingOf, keepBody } from './fastify/exchange.js'
import { begin, concludeLater, errorOf, type NodeExchange, respond, sendOff } from './node/exchange.js'

export * from '../http/for-adapters.js'

type OwnOptions = Partial<IdempotencyOptions<FastifyRequest>>

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Other options of `idempotency()` for this route, or `false`: not protected. */
    idempotency?: OwnOptions | false
  }
}

/** Marks routes whose last hook is ours. */
const guarded = Symbol('oncekey')

/**
 * A plugin that protects the handlers of the instance it is registered with. Register it before the routes: then it takes its turn behind
 * validation and behind all other hooks, such as those that authenticate.
 *
 * @example await app.register(idempotency(once, { tenant: (request) => request.user.id, afterFailure: 'rerun' }))
 */
export function idempotency<Tx>(once: Once<Tx>, options: IdempotencyOptions<FastifyRequest>) {
  const standard = idempotencyOf(once, options)
  const byRoute = new WeakMap<object, Idempotency<FastifyRequest, Tx>>()

  async function idempotencyPlugin(app: FastifyInstance): Promise<void> {
    app.addHook('onRoute', (route) => {
      // Now, so that a wrong option of a route is an error at start.
      if (hasOptions(route.config)) layerWith(route.config.idempotency)
      route.preHandler = [route.preHandler ?? [], protect].flat() as (typeof protect)[]
      route.config = Object.assign({}, route.config, { [guarded]: true })
    })
    // With callbacks: hooks that return promises cost each request of the service two more.
    app.addHook('preParsing', (request, _reply, payload, done) => {
      const layer = layerOf(request)
      if (layer?.concerns(incomingOf(request, layer))) keepBody(request, payload, layer, done)
      else done(null, payload)
    })
    app.addHook('preHandler', (request, reply, done) => {
      // A route that was there before the plugin was loaded.
      if (guarded in request.routeOptions.config) done()
      else protect(request, reply, done)
    })
  }

  function protect(request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void): void {
    const layer = layerOf(request)
    if (!layer) {
      done()
      return
    }
    const exchange = exchangeOf(request, reply)
    begin(layer, exchange).then((begun) => {
      if (begun.kind === 'run') concludeLater(exchange, begun)
      const trouble = begun.kind === 'answer' ? answered(reply, exchange, begun.answer) : undefined
      done(trouble)
    }, done)
  }

  function layerOf({ is404, routeOptions: { config } }: FastifyRequest): Idempotency<FastifyRequest, Tx> | null {
    // Where there is no route there is nothing to protect, and tomorrow's deploy may bring it.
    if (is404 || config.idempotency === false) return null
    return hasOptions(config) ? layerWith(config.idempotency) : standard
  }

  function layerWith(own: OwnOptions): Idempotency<FastifyRequest, Tx> {
    const layer = byRoute.get(own) ?? idempotencyOf(once, { ...options, ...own })
    byRoute.set(own, layer)
    return layer
  }

  // As fastify-plugin does it: the hooks belong to the instance that registers it.
  return Object.assign(idempotencyPlugin, { [Symbol.for('skip-override')]: true, [Symbol.for('fastify.display-name')]: 'oncekey' })
}

/** Sends an answer in the place of the handler's. Returns what others in front of us throw at that. */
function answered(reply: FastifyReply, exchange: NodeExchange<FastifyRequest>, answer: Answer): Error | undefined {
  try {
    sendOff(exchange, answer)
    reply.hijack()
    return undefined
  } catch (error) {
    return errorOf(error)
  }
}

/** Anything else, such as `true`, says nothing more than that the route is protected. */
function hasOptions(config: FastifyContextConfig | undefined): config is FastifyContextConfig & { idempotency: OwnOptions } {
  return typeof config?.idempotency === 'object' && config.idempotency !== null
}

/**
 * Serves an operation: the options of a route, with its handler.
 *
 * @example app.post('/orders', serve(createOrder, { tenant: (request) => request.user.id }))
 */
export function serve(operation: Servable, options: ServeOptions<FastifyRequest>): RouteShorthandOptionsWithHandler {
  return route(serviceOf(operation, options))
}

/**
 * Receives webhooks for a consumer: verifies the signature, and does the work of each message once. The options of a route, with its handler.
 *
 * @example app.post('/webhooks/stripe', webhook(onEvent, { verify: stripeWebhooks(stripe, secret) }))
 */
export function webhook<M extends Message>(
  consumer: Receiver<M>,
  options: WebhookOptions<FastifyRequest, M>,
): RouteShorthandOptionsWithHandler {
  return route(webhookOf(consumer, options))
}

function route(service: Service<FastifyRequest>): RouteShorthandOptionsWithHandler {
  return {
    // It protects itself.
    config: { idempotency: false },
    preParsing(request, _reply, payload, done) {
      keepBody(request, payload, service, done)
    },
    async handler(request, reply) {
      await respond(service, exchangeOf(request, reply))
      reply.hijack()
    },
  }
}

/**
 * Tells what became of operations that are served with `respond: 'async'`: their state, then their answer.
 *
 * @example app.get('/operations/:id', status(once, { tenant: (request) => request.user.id }))
 */
export function status<Tx>(once: Once<Tx>, options: StatusOptions<FastifyRequest>): RouteShorthandOptionsWithHandler {
  const service = statusOf(once, options)
  return {
    config: { idempotency: false },
    async handler(request, reply) {
      await respond(service, exchangeOf(request, reply))
      reply.hijack()
    },
  }
}
