import type { Once } from '../create-once.js'
import type { Attempt } from '../phases/attempt.js'
import type { OperationRun } from '../phases/operation-run.js'

/**
 * A property of the request: a weak map takes two microseconds each, and more in garbage collection. Copies of a request, and requests
 * derived from it, do not get the run: they are other requests. A proxy is the same request, so this is no private field.
 */
const attempt = Symbol('oncekey.attempt')
/** For requests that take no properties. */
const ofFrozen = new WeakMap<object, Attempt<never>>()

/**
 * The run of a request, for handlers behind `idempotency()`: the attempt number, keys for downstream calls, and phases and calls with which
 * the handler resumes. Undefined for an unprotected request. `once` only gives the type of `tx`.
 */
export function runOf<Tx>(_once: Once<Tx>, request: object): OperationRun<Tx> | undefined {
  return attemptOf(request)?.run as OperationRun<Tx> | undefined
}

/** Its run is built lazily. */
export function rememberAttempt<Tx>(request: object, begun: Attempt<Tx>): void {
  const isKept = Reflect.defineProperty(request, attempt, { value: begun, configurable: true, writable: true, enumerable: false })
  if (!isKept) ofFrozen.set(request, begun as unknown as Attempt<never>)
}

/** Whether a request is already inside `idempotency()`. */
export function hasRun(request: unknown): boolean {
  return attemptOf(request) !== undefined
}

function attemptOf(request: unknown): Attempt<never> | undefined {
  if (typeof request !== 'object' || request === null) return undefined
  return Object.hasOwn(request, attempt) ? (request as { [attempt]: Attempt<never> })[attempt] : ofFrozen.get(request)
}
