import type {
  FastifyContextConfig,
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  RouteHandlerMethod,
  RouteOptions,
  RouteShorthandOptionsWithHandler,
} from 'fastify'
import type { Answer } from '../core/answer.js'
import type { Once } from '../create-once.js'
import type { HandlerAttempt } from '../http/handler-attempt.js'
import { type Idempotency, idempotencyOf } from '../http/idempotency.js'
import type { IdempotencyOptions, ServeOptions, StatusOptions } from '../http/options.js'
import { hasRun, rememberAttempt } from '../http/run-of.js'
import { type Servable, type Service, serviceOf } from '../http/serve.js'
import { statusOf } from '../http/status.js'
import { type Message, type Receiver, type WebhookOptions, webhookOf } from '../http/webhook.js'
import { exchangeOf, incomingOf, keepBody } from './fastify/exchange.js'
import { HeldReply } from './fastify/held-reply.js'
import { errorOf, holdFor, type NodeExchange, respond, sendOff } from './node/exchange.js'
import { httpRequest } from './node/http-request.js'

export * from '../http/for-adapters.js'

type OwnOptions = Partial<IdempotencyOptions<FastifyRequest>>

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Other options of `idempotency()` for this route, or `false`: not protected. */
    idempotency?: OwnOptions | false
  }
}

/** Marks routes whose last hooks are ours. */
const guarded = Symbol('oncekey')

const heldReply = Symbol('oncekey.reply')

type Held = FastifyReply & { [heldReply]?: HeldReply }

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
      storeLast(route)
      route.handler = noticing(route.handler)
      route.config = Object.assign({}, route.config, { [guarded]: true })
    })
    // With callbacks: hooks that return promises cost each request of the service two more.
    app.addHook('preParsing', (request, reply, payload, done) => {
      const layer = layerOf(request)
      if (layer?.concerns(incomingOf(request, layer))) keepBody(request, payload, layer, done, reply.raw)
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
    // Registered twice: the first one protects it already.
    if (hasRun(request)) {
      done()
      return
    }
    const exchange = exchangeOf(request, reply)
    layer.begin(httpRequest(exchange, layer)).then(
      (begun) => {
        if (begun.kind !== 'run') exchange.kept?.client?.letGo()
        if (begun.kind === 'answer') done(answered(reply, exchange, begun.answer))
        else if (begun.kind === 'pass') done()
        else run(request, reply, begun.attempt, layer.maxAnswerBytes, done)
      },
      (error) => {
        exchange.kept?.client?.letGo()
        done(errorOf(error))
      },
    )
  }

  function run(request: FastifyRequest, reply: FastifyReply, attempt: HandlerAttempt<Tx>, maxBytes: number, done: () => void): void {
    // Fastify runs no handler for a request that was answered while its key was being claimed, by a time-out.
    const exchange = exchangeOf(request, reply)
    if (reply.sent) {
      exchange.kept?.client?.letGo()
      void attempt.giveBack()
      return
    }
    rememberAttempt(request, attempt.attempt)
    rememberAttempt(request.raw, attempt.attempt)
    // A route that was there before the plugin has none of the other hooks.
    if (guarded in request.routeOptions.config) (reply as Held)[heldReply] = new HeldReply(reply, exchange, attempt, maxBytes)
    else holdFor(exchange, attempt, maxBytes)
    attempt.within(done)
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

/** The last of the `onSend` hooks of a route. */
function store(
  _request: FastifyRequest,
  reply: FastifyReply,
  payload: unknown,
  done: (error: Error | null, payload?: unknown) => void,
): void {
  const held = (reply as Held)[heldReply]
  if (held) held.send(payload, done)
  else done(null, payload)
}

/** Other plugins add hooks to the route after us, and may change what is sent: Fastify reads the list when all are there. */
function storeLast(route: RouteOptions): void {
  let hooks = [route.onSend ?? []].flat() as (typeof store)[]
  Object.defineProperty(route, 'onSend', {
    enumerable: true,
    configurable: true,
    get() {
      // Some push to the list that they get.
      if (hooks.includes(store)) hooks.splice(hooks.indexOf(store), 1)
      hooks.push(store)
      return hooks
    },
    set(given: typeof hooks) {
      hooks = [given ?? []].flat()
    },
  })
}

/** A handler of which is noticed that it returned nothing. */
function noticing(handler: RouteHandlerMethod): RouteHandlerMethod {
  return function idempotentHandler(this: FastifyInstance, request, reply) {
    const returned = handler.call(this, request, reply) as unknown
    const held = (reply as Held)[heldReply]
    if (held && isPromise(returned)) {
      returned.then(
        (value) => value === undefined && setImmediate(() => held.returnedNothing()),
        () => {},
      )
    }
    return returned as undefined
  }
}

const isPromise = (value: unknown): value is Promise<unknown> => typeof (value as Promise<unknown> | null | undefined)?.then === 'function'

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
