import type { CallHandler, DynamicModule, ExecutionContext, NestInterceptor } from '@nestjs/common'
import type { Once } from '../create-once.js'
import { type Idempotency, idempotencyOf } from '../http/idempotency.js'
import type { IdempotencyOptions, ServeOptions, StatusOptions } from '../http/options.js'
import { type Servable, type Service, serviceOf } from '../http/serve.js'
import { statusOf } from '../http/status.js'
import { type Message, type Receiver, type WebhookOptions, webhookOf } from '../http/webhook.js'
import { exchangeOf, explain, explainUnsigned, mute, type NestRequest, type NestResponse } from './nest/exchange.js'
import { optionsOfRoute } from './nest/route-options.js'
import { enter, respond } from './node/exchange.js'

export * from '../http/for-adapters.js'
export type { NestRequest, NestResponse } from './nest/exchange.js'
export { Idempotent } from './nest/route-options.js'

/**
 * An interceptor that protects handlers: behind the guards, on Express and on Fastify. The application must keep the bytes of bodies:
 * `NestFactory.create(AppModule, { rawBody: true })`.
 *
 * @example app.useGlobalInterceptors(idempotency(once, { tenant: (request: Request) => request.user.id, afterFailure: 'rerun' }))
 */
export function idempotency<Tx, Request extends NestRequest = NestRequest>(
  once: Once<Tx>,
  options: IdempotencyOptions<Request>,
): NestInterceptor {
  // Now, so that a wrong option is an error at start. Those of routes are seen when the first request comes.
  idempotencyOf(once, options)
  const layers = new WeakMap<object, WeakMap<object, Idempotency<Request, Tx> | null>>()

  return {
    async intercept(context, next) {
      const http = context.switchToHttp()
      const response: NestResponse | undefined = http.getResponse()
      const layer = context.getType() === 'http' && isResponse(response) ? layerOf(context) : null
      if (!layer) return next.handle()
      const call = await enter(layer, exchangeOf<Request>(http.getRequest(), response as NestResponse)).catch(explain)
      // Nest answers errors outside of this context.
      if (call) return call(async () => next.handle())
      mute(response as NestResponse)
      return nothingMore
    },
  }

  function layerOf(context: ExecutionContext): Idempotency<Request, Tx> | null {
    const [controller, route] = [context.getClass(), context.getHandler()]
    const known = layers.get(controller) ?? new WeakMap<object, Idempotency<Request, Tx> | null>()
    layers.set(controller, known)
    if (!known.has(route)) {
      const own = optionsOfRoute(route, controller)
      known.set(route, own && idempotencyOf(once, { ...options, ...own }))
    }
    return known.get(route) ?? null
  }
}

/** Some contexts that are not HTTP say that they are. */
const isResponse = (response: unknown) => typeof response === 'object' && response !== null

/** What Nest takes for an observable of one undefined, without a package. What it makes of it goes nowhere: the answer is out. */
const nothingMore = [undefined] as unknown as ReturnType<CallHandler['handle']>

/** The same for the whole application, as a module. */
// biome-ignore lint/complexity/noStaticOnlyClass: Nest's modules are classes.
export class IdempotencyModule {
  /** @example @Module({ imports: [IdempotencyModule.forRoot(once, { tenant, afterFailure: 'rerun' })] }) */
  static forRoot<Tx, Request extends NestRequest = NestRequest>(once: Once<Tx>, options: IdempotencyOptions<Request>): DynamicModule {
    return { module: IdempotencyModule, providers: [{ provide: 'APP_INTERCEPTOR', useValue: idempotency(once, options) }] }
  }
}

/**
 * Serves an operation, from a controller's method that takes `@Req()` and `@Res()`.
 *
 * @example @Post() @Idempotent(false) create(@Req() request: Request, @Res() response: Response) { return this.createOrder(request, response) }
 */
export function serve<Request extends NestRequest = NestRequest>(operation: Servable, options: ServeOptions<Request>) {
  return answering(serviceOf(operation, options))
}

/**
 * Tells what became of operations that are served with `respond: 'async'`: their state, then their answer. From a controller's method
 * that takes `@Req()` and `@Res()`.
 *
 * @example @Get(':id') @Idempotent(false) read(@Req() request: Request, @Res() response: Response) { return this.status(request, response) }
 */
export function status<Tx, Request extends NestRequest = NestRequest>(once: Once<Tx>, options: StatusOptions<Request>) {
  return answering(statusOf(once, options))
}

/**
 * Receives webhooks for a consumer: verifies the signature, and does the work of each message once. From a controller's method that takes
 * `@Req()` and `@Res()`; the application must keep the bytes of bodies, as for `idempotency()`.
 *
 * @example @Post() @Idempotent(false) receive(@Req() request: Request, @Res() response: Response) { return this.webhook(request, response) }
 */
export function webhook<M extends Message, Request extends NestRequest = NestRequest>(
  consumer: Receiver<M>,
  options: WebhookOptions<Request, M>,
) {
  return answering(webhookOf(consumer, options), explainUnsigned)
}

function answering<Request extends NestRequest>(service: Service<Request>, explained: (error: unknown) => never = explain) {
  return async function serveOnce(request: Request, response: NestResponse): Promise<void> {
    await respond(service, exchangeOf(request, response)).catch(explained)
    mute(response)
  }
}
