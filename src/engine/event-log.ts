import { OncekeyError } from '../core/errors.js'
import type { OnceEvent } from './events.js'

type Write = (details: object, message: string) => void

/** What events are logged with: pino as it is, and `console`. Lines below a level that it has not are left out. */
export interface Logger {
  debug?: Write
  info: Write
  warn: Write
  error: Write
}

/** `executing` of an attempt that is not the first has a line of its own. */
type Line = OnceEvent['type'] | 'executing-again'

/** Normal traffic is `debug`; what a person did `info`; what mended itself `warn`; what needs a look `error`. */
export const eventLog: Readonly<Record<Line, readonly [level: keyof Logger, message: string]>> = {
  'not-claimed': ['error', 'The store could not be asked for a key: the request was turned away.'],
  executing: ['debug', 'The work of a key starts.'],
  'executing-again': ['warn', 'The work of a key is taken up again: an earlier attempt did not finish.'],
  replayed: ['debug', 'A stored answer was given again.'],
  'met-in-progress': ['debug', 'A request met another one that still works on its key.'],
  mismatched: ['warn', 'A key came back with another request: a mistake of the client.'],
  'met-parked': ['warn', 'A request met a key that is parked, and that nobody has looked at yet.'],
  'phase-committed': ['debug', 'A phase is committed.'],
  'call-returned': ['debug', 'A call returned.'],
  'call-refused': ['warn', 'The other side refused a call for good.'],
  'call-failed': ['warn', 'A call failed.'],
  'call-looked-up': ['info', 'The other side was asked about a call of an earlier attempt.'],
  finished: ['debug', 'The work of a key is done, and its answer stored.'],
  released: ['warn', 'The work of a key threw: the next request may run it again.'],
  failed: ['error', 'The work of a key failed, and the failure is what retries get.'],
  parked: ['error', 'A key is parked: a person has to look at it.'],
  'lease-lost': ['warn', 'Another holder has the key: nothing more of this attempt is stored.'],
  'lease-in-doubt': ['warn', 'No heartbeat was confirmed in time, and the work was told to stop.'],
  'max-run-exceeded': ['error', 'The work ran longer than maxRun, and was told to stop.'],
  'heartbeat-failed': ['error', 'A heartbeat failed: is the store away?'],
  'answer-not-stored': ['error', 'The work of a key ended, but the store could not be told: a retry may run it again.'],
  'redaction-failed': ['error', 'The redact hook failed: of this answer only the status is kept.'],
  'answer-omitted': ['warn', 'Answer body not stored: larger than maxAnswerBytes. Retries do not get it.'],
  'failed-open': ['error', 'The store could not be asked: the handler runs without protection.'],
  resolved: ['info', 'A person resolved a parked key.'],
  enqueued: ['debug', 'A key is left to workers.'],
  swept: ['warn', 'The holder of a key was gone: background work took care of it.'],
  'timed-out': ['error', 'No worker took a key in time: it ended without having run.'],
  'worker-ran': ['debug', 'Background work had its turn.'],
  'differences-found': ['error', 'Our records and those of the other side differ: a person has to look at it.'],
  'worker-failed': ['error', 'Background work failed; it will be tried again.'],
  'job-delivered': ['debug', 'A job is delivered.'],
  'job-failed': ['warn', 'A job could not be delivered; it will be tried again.'],
  'job-dead': ['error', 'A job is given up: a person has to look at it.'],
  'job-unsettled': ['warn', 'What became of a job could not be stored: it may be delivered again.'],
}

/** Enough for the scopes of a service. Where each request has its own scope, lines on omitted answers stop there. */
const mostScopes = 100

/** A listener that writes each event to the logger: its fields, and no answer, input or request, which no event has. */
export function logTo(logger: Logger): (event: OnceEvent) => void {
  for (const level of ['info', 'warn', 'error'] as const) {
    if (typeof logger[level] === 'function') continue
    throw new OncekeyError('option_invalid', `The logger has no ${level}(): pass a pino logger, console, or { debug, info, warn, error }.`)
  }
  const scopes = new Set<string>()
  /** Once for each scope: the same handler is as large with each request. */
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
    // The name under which pino and its kin print an error with its stack; under any other it would be {}.
    const { error: err, ...details } = event
    logger[level]?.({ ...details, err }, message)
  }
}

/** Workers look all the time whether there is anything to do. That there was nothing is no line, or `console` shows little else. */
function isIdle(event: OnceEvent): boolean {
  return event.type === 'worker-ran' && Object.values(event.counts).every((count) => count === 0)
}
