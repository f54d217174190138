import type { Once } from '../create-once.js'
import type { OperationRun } from '../phases/operation-run.js'

/**
 * A property of the request itself: a weak map takes two microseconds for each, and more of the garbage collector's. Nobody who copies
 * a request, or makes another one on top of it, takes the run along: what they send on is a request of its own.
 */
const run = Symbol('oncekey.run')
/** For requests that take no properties. */
const ofFrozen = new WeakMap<object, OperationRun<never>>()

/**
 * The run that a request is part of, for handlers behind `idempotency()`: which attempt it is, keys for downstream calls, and phases and
 * calls, with which the handler resumes. Undefined for a request that is not protected. `once` is there for the type of `tx`.
 */
export function runOf<Tx>(_once: Once<Tx>, request: object): OperationRun<Tx> | undefined {
  if (!hasRun(request)) return undefined
  return (ofFrozen.get(request) ?? (request as { [run]?: unknown })[run]) as OperationRun<Tx>
}

export function rememberRun<Tx>(request: object, begun: OperationRun<Tx>): void {
  const isKept = Reflect.defineProperty(request, run, { value: begun, configurable: true, writable: true, enumerable: false })
  if (!isKept) ofFrozen.set(request, begun as OperationRun<never>)
}

/** Whether a request is inside of `idempotency()` already. */
export function hasRun(request: unknown): boolean {
  return typeof request === 'object' && request !== null && (Object.hasOwn(request, run) || ofFrozen.has(request))
}
