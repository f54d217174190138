import type { IdempotencyOptions } from '../../http/options.js'
import type { NestRequest } from './exchange.js'

const routeOptions = Symbol.for('oncekey:idempotency')

/** Nest loads reflect-metadata before anything else. */
const metadata = Reflect as typeof Reflect & {
  defineMetadata(key: unknown, value: unknown, target: object): void
  getMetadata(key: unknown, target: object): unknown
}

/**
 * Other options for a route or for all routes of a controller; `false`: not protected. A route's own come before its controller's, and
 * those before the application's.
 *
 * @example @Idempotent({ afterFailure: 'park' }) @Post() create() { … }
 */
export function Idempotent<Request extends NestRequest = NestRequest>(
  options: Partial<IdempotencyOptions<Request>> | false = {},
): ClassDecorator & MethodDecorator {
  return (target: object, _name?: string | symbol, descriptor?: PropertyDescriptor) => {
    metadata.defineMetadata(routeOptions, options, descriptor ? descriptor.value : target)
  }
}

/** What was said of a route, of its controller, or of both; null: it is not protected. */
export function optionsOfRoute(route: object, controller: object): object | null {
  const [own, common] = [route, controller].map((target) => metadata.getMetadata(routeOptions, target) as object | false | undefined)
  if ((own ?? common) === false) return null
  return { ...(common || {}), ...(own || {}) }
}
