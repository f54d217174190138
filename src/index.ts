export { type Answer, type BodyOf, bodyOf, type HeaderPair, type HeadersInput, type Reply, reply } from './core/answer.js'
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
export type { EncryptionKey, EncryptionOptions } from './core/key-ring.js'
export { type AfterFailure, type Policy, type PolicyOptions, type ScopePolicy, scopeOf } from './core/policy.js'
export type { KeyRecord, KeyState, Lease } from './core/record.js'
export { type ResolvedRetention, type Retention, retention } from './core/retention.js'
export { sealedStore } from './core/sealed-store.js'
export type {
  AdvanceResult,
  AuditEntry,
  DeadJob,
  EndedKey,
  EnqueueVerdict,
  JobRecord,
  JobRef,
  JobSettlement,
  JobsTake,
  JobsTaken,
  KeyClaim,
  KeyFinish,
  KeyPark,
  KeyRelease,
  KeyResolve,
  KeySighting,
  KeyStore,
  KeysSweep,
  LeaseRenewal,
  LeaseStanding,
  OutboxStore,
  Resolution,
  ResolveResult,
  StepAdvance,
  StepHistory,
  StepKind,
  StepRecord,
  StepStore,
  Store,
  Sweep,
  TakenJob,
  Turn,
  TurnStore,
  TurnTake,
  UpkeepStore,
  Verdict,
  WriteResult,
} from './core/store.js'
export { createOnce, type Once, type OnceInternals, type OnceOptions } from './create-once.js'
export type { Logger } from './engine/event-log.js'
export type { JobEvent, KeyEvent, OnceEvent, WorkerEvent } from './engine/events.js'
export type { ExecuteOptions } from './engine/execute.js'
export type { Run } from './engine/held.js'
export type { Outcome } from './engine/outcome.js'
export type { SpanAttributes, Telemetry } from './engine/telemetry.js'
export type { EnqueueOutcome, LocalOptions, OperationOutcome, RunRequest } from './phases/admission.js'
export type { Call, CallOptions, Finding, LookUp } from './phases/call.js'
export type { Consumer, ConsumerOptions, ConsumerWork, Message } from './phases/consumer.js'
export type { Fetched, FetchOptions } from './phases/fetch-call.js'
export type { InputOf, Issue, OutputOf, StandardSchema } from './phases/input.js'
export type { LocalOperation } from './phases/local.js'
export type { Operation, OperationOptions } from './phases/operation.js'
export type { OperationRun, StageOptions } from './phases/operation-run.js'
export type { ResolveAs } from './phases/resolve.js'
export type { WithinOptions, WithinOutcome } from './phases/within.js'
