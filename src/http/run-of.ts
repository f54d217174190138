import type { Once } from '../create-once.js'
import type { OperationRun } from '../phases/operation-run.js'

const runs = new WeakMap<object, OperationRun<never>>()

/**
 * The run that a request is part of, for handlers behind `idempotency()`: which attempt it is, keys for downstream calls, and phases and
 * calls, with which the handler resumes. Undefined for a request that is not protected. `once` is there for the type of `tx`.
 */
export function runOf<Tx>(_once: Once<Tx>, request: object): OperationRun<Tx> | undefined {
  return runs.get(request) as OperationRun<Tx> | undefined
}

export function rememberRun<Tx>(request: object, run: OperationRun<Tx>): void {
  runs.set(request, run as OperationRun<never>)
}

/** Whether a request is inside of `idempotency()` already. */
export function hasRun(request: unknown): boolean {
  return typeof request === 'object' && request !== null && runs.has(request)
}
