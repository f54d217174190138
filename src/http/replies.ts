import { type Answer, type HeaderPair, reply } from '../core/answer.js'
import type { FingerprintPart } from '../core/fingerprint/fingerprint.js'
import type { Outcome } from '../engine/outcome.js'
import { type HttpSettings, secondsOf } from './options.js'
import { type Problem, type ProblemCode, problems } from './problems.js'
import { requestIdOf, withRequestId } from './request-ids.js'

type Settings = Pick<HttpSettings<never>, 'profile' | 'documentation' | 'whenInProgress'>

export function problemReply(settings: Settings, problem: Problem): Answer {
  return named(settings, settings.profile.render(problem, settings.documentation))
}

/** The answer to a request whose work does not run now. */
export function replyTo(settings: Settings, outcome: Exclude<Outcome, { kind: 'executed' }>): Answer {
  return named(settings, answerTo(settings, outcome))
}

const named = ({ profile }: Settings, answer: Answer) => (profile.requestIds ? withRequestId(answer, crypto.randomUUID()) : answer)

function answerTo(settings: Settings, outcome: Exclude<Outcome, { kind: 'executed' }>): Answer {
  switch (outcome.kind) {
    case 'replayed':
      return replayOf(settings, outcome)
    case 'in-progress':
      return inProgress(settings, outcome.retryAfterMs)
    case 'mismatch':
      return problemReply(settings, { code: 'key_reused', detail: mismatchDetail(outcome.part), members: { part: outcome.part } })
    case 'parked':
      return inDialect(settings, outcome.answer)
  }
}

/** The stored answer byte for byte, plus the replay header. */
function replayOf(settings: Settings, { answer, incarnation, state }: Extract<Outcome, { kind: 'replayed' }>): Answer {
  const kept = state === 'failed' ? inDialect(settings, answer) : answer
  const told = answer.omittedBytes === undefined ? kept : notKept(settings, answer)
  const headers = told.headers.filter(([name]) => name !== 'original-request')
  headers.push(replayed)
  if (settings.profile.requestIds) {
    const original = told.headers.find(([name]) => name === 'original-request')?.[1] ?? requestIdOf(incarnation)
    headers.push(['original-request', original])
  }
  return { status: told.status, headers, body: told.body }
}

const replayed: HeaderPair = ['idempotent-replayed', 'true']

/** Status and headers such as `Location` say what happened; the body is gone. */
function notKept(settings: Settings, { status, headers }: Answer): Answer {
  const problem = problemReply(settings, { code: 'answer_not_kept', members: { originalStatus: status } })
  const location = headers.filter(([name]) => name.toLowerCase() === 'location' || name === 'original-request')
  return { ...problem, headers: [...problem.headers, ...location] }
}

/** The state of an operation without an answer. */
export interface Unfinished {
  readonly id: string
  readonly state: 'pending' | 'processing'
  /** When the request was accepted, in ISO 8601. */
  readonly createdAt?: string
  /** The number of attempts. */
  readonly attempt?: number
}

/** `requestId`: the life of the key, for the answer that accepts the request; replays give it as `Original-Request`. */
export function unfinishedReply(
  { profile }: Settings,
  status: 200 | 202,
  unfinished: Unfinished,
  headers: readonly HeaderPair[],
  requestId: string = crypto.randomUUID(),
): Answer {
  const answer = reply(status, unfinished, headers)
  return profile.requestIds ? withRequestId(answer, requestId) : answer
}

function inProgress(settings: Settings, retryAfterMs: number): Answer {
  const retryAfterSeconds = secondsOf(retryAfterMs)
  if (settings.whenInProgress !== 'accepted') return problemReply(settings, { code: 'key_in_use', retryAfterSeconds })
  return reply(202, { status: 'processing' }, { 'retry-after': String(retryAfterSeconds) })
}

const partNames: Record<FingerprintPart, string> = {
  method: 'method',
  path: 'path',
  query: 'query string',
  mediaType: 'media type',
  body: 'body',
}

/** Names the part, never the stored value: the owner of a key learns nothing from it. */
function mismatchDetail(part: FingerprintPart): string {
  return `The key was first used with another ${partNames[part]}. ${problems.key_reused.detail}`
}

/** Renders errors that the system stored in this route's dialect; other stored answers are unchanged. */
function inDialect(settings: Settings, answer: Answer): Answer {
  const code = systemProblemOf(answer)
  return code ? problemReply(settings, { code }) : answer
}

const systemType = 'urn:oncekey:problem:'

function systemProblemOf({ headers, body }: Answer): ProblemCode | undefined {
  if (!headers.some(([name, value]) => name.toLowerCase() === 'content-type' && value === 'application/problem+json')) return undefined
  try {
    const { type } = JSON.parse(new TextDecoder().decode(body)) as { type?: unknown }
    const code = typeof type === 'string' && type.startsWith(systemType) ? type.slice(systemType.length) : ''
    return Object.hasOwn(problems, code) ? (code as ProblemCode) : undefined
  } catch {
    return undefined
  }
}
