// For authors of stores: the contract, and the rules that every store must share.
export { type Answer, checkAnswer, type HeaderPair } from './core/answer.js'
export { type Decision, type DecisionRequest, decide, decideEnqueue, type EnqueueDecision } from './core/decision.js'
export { checkKeyRef, checkTenant, isKeyId, type KeyRef, keyId } from './core/key.js'
export { isExpired, type KeyRecord, type KeyState, type Lease } from './core/record.js'
export { expiryAtFinish, type ResolvedRetention } from './core/retention.js'
export type * from './core/store.js'
export { holderGone, outcomeUnknown } from './core/system-answers.js'
export { execute, isReport, type Report, report } from './core/verdict.js'
