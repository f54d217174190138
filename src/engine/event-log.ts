import { OncekeyError } from '../core/errors.js'
import type { OnceEvent } from './events.js'

type Write = (details: object, message: string) => void

/** The logger: pino as it is, or `console`. Lines of a missing level are dropped. */
export interface Logger {
  debug?: Write
  info: Write
  warn: Write
  error: Write
}

/** `executing` of a later attempt has its own line. */
type Line = OnceEvent['type'] | 'executing-again'

/** Normal traffic is `debug`, acts of operators `info`, what recovered by itself `warn`, what needs a look `error`. */
export const eventLog: Readonly<Record<Line, readonly [level: keyof Logger, message: string]>> = {
  'not-claimed': ['error', 'Claim failed: store unavailable or stored key unreadable.'],
  executing: ['debug', 'Work started.'],
  'executing-again': ['warn', 'Work resumed: an earlier attempt did not finish.'],
  replayed: ['debug', 'Stored answer replayed.'],
  'met-in-progress': ['debug', 'Request not run: key in progress.'],
  mismatched: ['warn', 'Key reused with a different request: a client bug.'],
  'met-parked': ['warn', 'Request not run: key is parked.'],
  'phase-committed': ['debug', 'Phase committed.'],
  'call-returned': ['debug', 'Call returned.'],
  'call-refused': ['warn', 'Call refused for good by the other side.'],
  'call-failed': ['warn', 'Call failed.'],
  'call-looked-up': ['info', 'Looked up the call of an earlier attempt.'],
  finished: ['debug', 'Work finished and its answer stored.'],
  released: ['warn', 'Work threw: the next request may run it again.'],
  failed: ['error', 'Work failed: retries replay the failure.'],
  parked: ['error', 'Key parked: an operator has to resolve it.'],
  'lease-lost': ['warn', 'Lease lost: nothing more of this attempt is stored.'],
  'lease-in-doubt': ['warn', 'No heartbeat confirmed in time: work aborted.'],
  'max-run-exceeded': ['error', 'Work exceeded maxRun and was aborted.'],
  'heartbeat-failed': ['error', 'Heartbeat failed: the store may be unreachable.'],
  'answer-not-stored': ['error', 'Work ended but its result was not stored: a retry may run it again.'],
  'redaction-failed': ['error', 'The redact hook failed: only the status of this answer is stored.'],
  'answer-omitted': ['warn', 'Answer body not stored: larger than maxAnswerBytes. Retries do not get it.'],
  'failed-open': ['error', 'Store unavailable: the handler runs without protection.'],
  resolved: ['info', 'Parked key resolved.'],
  enqueued: ['debug', 'Key enqueued for workers.'],
  swept: ['warn', 'Key swept: its holder was gone.'],
  'timed-out': ['error', 'Key timed out: no worker claimed it.'],
  'worker-ran': ['debug', 'Background work ran.'],
  'differences-found': ['error', 'Reconciliation found differences: a person has to look at them.'],
  'worker-failed': ['error', 'Background work failed and will be retried.'],
  'job-delivered': ['debug', 'Job delivered.'],
  'job-failed': ['warn', 'Job delivery failed and will be retried.'],
  'job-dead': ['error', 'Job is a dead letter: retry or discard it.'],
  'job-unsettled': ['warn', 'Job result not stored: it may be delivered again.'],
}

/** Enough for the scopes of a service. If each request has its own scope, lines on omitted answers stop here. */
const mostScopes = 100

/** A listener that writes the fields of each event to the logger. Events hold no answer, input or request. */
export function logTo(logger: Logger): (event: OnceEvent) => void {
  for (const level of ['info', 'warn', 'error'] as const) {
    if (typeof logger[level] === 'function') continue
    throw new OncekeyError('option_invalid', `The logger has no ${level}(): pass a pino logger, console, or { debug, info, warn, error }.`)
  }
  const scopes = new Set<string>()
  /** Once per scope: a handler's answers are all about as large. */
  const isKnown = (event: OnceEvent) => {
    if (event.type !== 'answer-omitted') return false
    const isFirst = scopes.size < mostScopes && !scopes.has(event.scope)
    if (isFirst) scopes.add(event.scope)
    return !isFirst
  }
  return function log(event) {
    if (isIdle(event) || isKnown(event)) return
    const [level, message] = eventLog[event.type === 'executing' && event.takenOver ? 'executing-again' : event.type]
    if (!('error' in event)) return logger[level]?.(event, message)
    // pino and its kin print an error with its stack only under this name; under any other it would be {}.
    const { error: err, ...details } = event
    logger[level]?.({ ...details, err }, message)
  }
}

/** Idle worker runs are not logged: `console` would show little else. */
function isIdle(event: OnceEvent): boolean {
  return event.type === 'worker-ran' && Object.values(event.counts).every((count) => count === 0)
}
