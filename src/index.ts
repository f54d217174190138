export { type Answer, bodyOf, type HeaderPair, type HeadersInput, type Reply, reply } from './core/answer.js'
export type { Clock, Random } from './core/clock.js'
export { type Decision, type DecisionRequest, decide } from './core/decision.js'
export type { Duration } from './core/duration.js'
export { type ErrorCode, errorStatuses, isOncekeyError, OncekeyError } from './core/errors.js'
export type { Exclusions } from './core/fingerprint/exclusions.js'
export {
  createFingerprinter,
  type Fingerprint,
  type FingerprintOptions,
  type FingerprintPart,
  type FingerprintRequest,
  type FingerprintSecret,
} from './core/fingerprint/fingerprint.js'
export type { Json } from './core/json.js'
export { type KeyRef, keyId, maxKeyLength } from './core/key.js'
export { type AfterFailure, type Policy, type PolicyOptions, type ScopePolicy, scopeOf } from './core/policy.js'
export type { KeyRecord, KeyState, Lease } from './core/record.js'
export { type ResolvedRetention, type Retention, retention } from './core/retention.js'
export type {
  KeyClaim,
  KeyFinish,
  KeyPark,
  KeyRelease,
  LeaseRenewal,
  LeaseStanding,
  Store,
  Verdict,
  WriteResult,
} from './core/store.js'
export { createOnce, type Once, type OnceOptions } from './engine/create-once.js'
export type { OnceEvent } from './engine/events.js'
export type { ExecuteOptions, Outcome, Run } from './engine/execute.js'
