import type { Once } from '../create-once.js'
import type { Attempt } from '../phases/attempt.js'
import type { OperationRun } from '../phases/operation-run.js'

/**
 * A property of the request itself: a weak map takes two microseconds for each, and more of the garbage collector's. Nobody who copies
 * a request, or makes another one on top of it, takes the run along: what they send on is a request of its own. A proxy of it is the
 * same request, so it is no private field.
 */
const attempt = Symbol('oncekey.attempt')
/** For requests that take no properties. */
const ofFrozen = new WeakMap<object, Attempt<never>>()

/**
 * The run that a request is part of, for handlers behind `idempotency()`: which attempt it is, keys for downstream calls, and phases and
 * calls, with which the handler resumes. Undefined for a request that is not protected. `once` is there for the type of `tx`.
 */
export function runOf<Tx>(_once: Once<Tx>, request: object): OperationRun<Tx> | undefined {
  return attemptOf(request)?.run as OperationRun<Tx> | undefined
}

/** Its run is made when it is asked for. */
export function rememberAttempt<Tx>(request: object, begun: Attempt<Tx>): void {
  const isKept = Reflect.defineProperty(request, attempt, { value: begun, configurable: true, writable: true, enumerable: false })
  if (!isKept) ofFrozen.set(request, begun as unknown as Attempt<never>)
}

/** Whether a request is inside of `idempotency()` already. */
export function hasRun(request: unknown): boolean {
  return attemptOf(request) !== undefined
}

function attemptOf(request: unknown): Attempt<never> | undefined {
  if (typeof request !== 'object' || request === null) return undefined
  return Object.hasOwn(request, attempt) ? (request as { [attempt]: Attempt<never> })[attempt] : ofFrozen.get(request)
}
