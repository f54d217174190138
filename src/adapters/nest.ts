import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { CallHandler, DynamicModule, ExecutionContext, NestInterceptor } from '@nestjs/common'
import type { Once } from '../create-once.js'
import { type Idempotency, idempotencyOf } from '../http/idempotency.js'
import type { IdempotencyOptions, ServeOptions } from '../http/options.js'
import { type Servable, serviceOf } from '../http/serve.js'
import { enter, type NodeExchange, respond } from './node/exchange.js'

export * from '../http/for-adapters.js'

/** A request of Nest: Express's, or Fastify's, which has Node's inside. */
export type NestRequest = (IncomingMessage | { readonly raw: IncomingMessage }) & { readonly originalUrl?: string }
/** A response of Nest: Express's, or Fastify's reply. */
export type NestResponse = ServerResponse | { readonly raw: ServerResponse; getHeaders(): object }

type Options = IdempotencyOptions<NestRequest>

const routeOptions = Symbol.for('oncekey:idempotency')

/** Nest loads reflect-metadata before anything else. */
const metadata = Reflect as typeof Reflect & {
  defineMetadata(key: unknown, value: unknown, target: object): void
  getMetadata(key: unknown, target: object): unknown
}

/**
 * Other options for a route or a controller; `false`: not protected.
 *
 * @example @Idempotent({ afterFailure: 'park' }) @Post() create() { … }
 */
export function Idempotent(options: Partial<Options> | false = {}): ClassDecorator & MethodDecorator {
  return (target: object, _name?: string | symbol, descriptor?: PropertyDescriptor) => {
    metadata.defineMetadata(routeOptions, options, descriptor ? descriptor.value : target)
  }
}

/**
 * An interceptor that protects handlers: behind the guards, on Express and on Fastify. The application must keep the bytes of bodies:
 * `NestFactory.create(AppModule, { rawBody: true })`.
 *
 * @example app.useGlobalInterceptors(idempotency(once, { tenant: (request) => request.user.id, afterFailure: 'rerun' }))
 */
export function idempotency<Tx>(once: Once<Tx>, options: Options): NestInterceptor {
  const standard = idempotencyOf(once, options)
  const byRoute = new WeakMap<object, Idempotency<NestRequest, Tx>>()

  return {
    async intercept(context, next) {
      const layer = context.getType() === 'http' ? layerOf(context) : null
      if (!layer) return next.handle()
      const http = context.switchToHttp()
      const way = await enter(layer, exchangeOf(http.getRequest(), http.getResponse()))
      return way === 'answered' ? nothingMore(next) : next.handle()
    },
  }

  function layerOf(context: ExecutionContext): Idempotency<NestRequest, Tx> | null {
    const own = [context.getHandler(), context.getClass()].map((target) => metadata.getMetadata(routeOptions, target)).find(isGiven)
    if (own === undefined) return standard
    if (own === false) return null
    const known = byRoute.get(own)
    const layer = known ?? idempotencyOf(once, { ...options, ...own })
    byRoute.set(own, layer)
    return layer
  }
}

const isGiven = (options: unknown): options is Partial<Options> | false => options !== undefined

/** The same for the whole application, as a module. */
export class IdempotencyModule {
  /** @example @Module({ imports: [IdempotencyModule.forRoot(once, { tenant, afterFailure: 'rerun' })] }) */
  static forRoot<Tx>(once: Once<Tx>, options: Options): DynamicModule {
    return { module: IdempotencyModule, providers: [{ provide: 'APP_INTERCEPTOR', useValue: idempotency(once, options) }] }
  }
}

/**
 * Serves an operation, from a controller's method that takes `@Req()` and `@Res()`.
 *
 * @example @Post() create(@Req() request: Request, @Res() response: Response) { return this.createOrder(request, response) }
 */
export function serve(operation: Servable, options: ServeOptions<NestRequest>) {
  const service = serviceOf(operation, options)
  return async function serveOperation(request: NestRequest, response: NestResponse): Promise<void> {
    await respond(service, exchangeOf(request, response))
  }
}

function exchangeOf(request: NestRequest, response: NestResponse): NodeExchange<NestRequest> {
  const common = { native: request, parser: request, ...(request.originalUrl === undefined ? {} : { url: request.originalUrl }) }
  return 'raw' in response
    ? {
        ...common,
        request: (request as { raw: IncomingMessage }).raw,
        response: response.raw,
        // Fastify keeps its headers to itself until the end.
        baseline: response.getHeaders() as OutgoingHttpHeaders,
      }
    : { ...common, request: request as IncomingMessage, response }
}

/** An observable of nothing, of the kind that Nest uses. What it makes of it goes nowhere: the answer is out. */
function nothingMore(next: CallHandler): ReturnType<CallHandler['handle']> {
  const handled = next.handle()
  type Observer = { next(value: undefined): void; complete(): void }
  const Observable = handled.constructor as new (subscribe: (observer: Observer) => void) => typeof handled
  return new Observable((observer) => {
    observer.next(undefined)
    observer.complete()
  })
}
