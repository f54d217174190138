/** The contract, for adapters of frameworks that have none here. */
export type { Answer, HeaderPair } from '../core/answer.js'
export * from './for-adapters.js'
export { type Handled, type Idempotency, idempotencyOf } from './idempotency.js'
export { type Problem, type ProblemCode, problems } from './problems.js'
export { type Documentation, ietf, stripe } from './profiles.js'
export type { HttpBody, HttpRequest } from './request.js'
export { rememberRun } from './run-of.js'
export { type Service, serviceOf } from './serve.js'
