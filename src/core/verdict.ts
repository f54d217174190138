import type { Answer } from './answer.js'
import type { Decision } from './decision.js'
import type { KeyRecord } from './record.js'
import type { Verdict } from './store.js'

/** The decisions that change nothing: their verdict can be read off the record. */
export type Report = Extract<Decision, { do: 'replay' | 'report-mismatch' | 'report-parked' | 'report-in-progress' }>

type Known = Pick<KeyRecord, 'state' | 'answer' | 'incarnation' | 'expiresAt'>

/** `now` is the store's time of the decision. */
export function report(record: Known | undefined, decision: Report, now: number): Exclude<Verdict, { kind: 'execute' }> {
  // `record` may be undefined here: workers do not create keys.
  if (decision.do === 'report-in-progress') return { kind: 'in-progress', retryAfterMs: decision.retryAfterMs }
  if (decision.do === 'report-mismatch') return { kind: 'mismatch', part: decision.part }
  const { state, answer, incarnation, expiresAt } = record as Known
  if (decision.do === 'report-parked') return { kind: 'parked', answer: answer as Answer }
  return { kind: 'replay', state: state as 'complete' | 'failed', answer: answer as Answer, incarnation, expiresInMs: expiresAt - now }
}

type Held = Pick<KeyRecord, 'tenant' | 'id' | 'incarnation' | 'fence' | 'owner' | 'recoveryPoint' | 'attempts' | 'request'>

export function execute({ tenant, id, incarnation, fence, owner, recoveryPoint, attempts, request }: Held): Verdict {
  return { kind: 'execute', lease: { tenant, id, incarnation, fence, owner }, recoveryPoint, takenOver: fence > 1, attempts, request }
}

/** True for a decision that changes nothing. */
export function isReport(decision: Decision): decision is Report {
  return decision.do === 'replay' || decision.do.startsWith('report-')
}
