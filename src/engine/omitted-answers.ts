import type { KeyRef } from '../core/key.js'
import type { Report } from './events.js'

/** Enough for the scopes of a service. If each request has its own scope, the warnings stop here. */
const mostWarnings = 100

/**
 * Reports each answer whose body is over the cap. Without a logger the first one of each scope is also a process warning: otherwise the first
 * sign would be a retry without a body.
 */
export function omittedAnswers(report: Report, capBytes: number, hasLogger: boolean): (ref: KeyRef, bytes: number) => void {
  const warned = new Set<string>()
  return function omitted(ref, bytes) {
    report(ref, { type: 'answer-omitted', bytes, capBytes })
    if (hasLogger || warned.has(ref.scope) || warned.size >= mostWarnings) return
    warned.add(ref.scope)
    process.emitWarning(
      `An answer of scope ${JSON.stringify(ref.scope)} has ${bytes} bytes; maxAnswerBytes is ${capBytes}. Its body is not stored, and a retry ` +
        'does not get it. Raise maxAnswerBytes, or answer with a reference to the result.',
      { code: 'ONCEKEY_ANSWER' },
    )
  }
}
