import type { Answer } from '../../core/answer.js'
import type { AfterFailure } from '../../core/policy.js'
import { neverStarted, outcomeUnknown, workFailed } from '../../core/system-answers.js'
import type { Outcome } from '../../engine/outcome.js'
import type { HttpSettings } from '../options.js'
import { parseKey } from '../parse-key.js'
import { type Problem, type ProblemCode, problems } from '../problems.js'
import { problemReply, replyTo } from '../replies.js'

/** One of the things that the layer may answer instead of the handler, as it would really answer it. */
export interface RouteAnswer {
  readonly code: ProblemCode
  readonly title: string
  readonly answer: Answer
}

interface Route {
  /** Undefined for an operation. */
  readonly afterFailure?: AfterFailure | undefined
  readonly failOpen?: boolean | undefined
}

/** All of them, for a route with these settings. They come from the functions that answer requests, so they cannot differ from those. */
export function routeAnswers(settings: HttpSettings<never>, { afterFailure, failOpen = false }: Route): RouteAnswer[] {
  const opaque = afterFailure !== undefined
  return [
    ...(settings.required ? [problem({ code: 'key_missing' })] : []),
    problem({ code: 'key_invalid', detail: exampleOfBadKey(settings) }),
    problem({ code: 'body_incomplete' }),
    ...(opaque ? [] : [problem({ code: 'input_invalid', members: { issues: exampleIssues } })]),
    outcome('key_in_use', { kind: 'in-progress', retryAfterMs: 15_000 }),
    outcome('answer_not_kept', replayed({ status: 201, headers: [], body: new Uint8Array(), omittedBytes: 2_000_000 }, 'complete')),
    problem({ code: 'body_too_large' }),
    ...(opaque || needsJson(settings) ? [] : [problem({ code: 'media_type_unsupported' })]),
    outcome('key_reused', { kind: 'mismatch', part: 'body' }),
    ...failures(),
    // Where the same operation is served asynchronously, too.
    ...(opaque ? [] : [outcome('never_started', replayed(neverStarted, 'failed'))]),
    problem({ code: 'interrupted', retryAfterSeconds: 1 }),
    problem({ code: 'shutting_down', retryAfterSeconds: 1 }),
    ...(opaque && failOpen ? [] : [problem({ code: 'store_unavailable', retryAfterSeconds: 1 })]),
  ]

  /** What is told of work that failed before, and will not be done again. */
  function failures(): RouteAnswer[] {
    const failed = outcome('work_failed', replayed(workFailed, 'failed'))
    const lost = outcome('outcome_unknown', replayed(outcomeUnknown, 'failed'))
    const parked = outcome('outcome_unknown', { kind: 'parked', answer: outcomeUnknown })
    if (opaque) return { rerun: [], store: [failed, lost], park: [parked] }[afterFailure]
    return settings.profile.storeErrors ? [failed, parked] : [parked]
  }

  function problem(given: Problem): RouteAnswer {
    return { code: given.code, title: problems[given.code].title, answer: problemReply(settings, given) }
  }

  function outcome(code: ProblemCode, given: Exclude<Outcome, { kind: 'executed' }>): RouteAnswer {
    return { code, title: problems[code].title, answer: replyTo(settings, given) }
  }
}

/** Where the key must be in the JSON, whatever is not JSON has no key. */
const needsJson = ({ key, required }: HttpSettings<never>) => required && typeof key === 'object' && key.kind === 'field'

const replayed = (answer: Answer, state: 'complete' | 'failed') =>
  ({ kind: 'replayed', answer, state, incarnation: '8e03978e-40d5-43dd-bc93-6894a57f9324' }) as Extract<Outcome, { kind: 'replayed' }>

/** As a Standard Schema tells them; what is wrong with the whole has no path. */
const exampleIssues = [{ message: 'Expected a number', path: ['items', 0, 'price'] }, { message: 'The total does not add up' }]

function exampleOfBadKey({ key }: HttpSettings<never>): string | undefined {
  if (typeof key === 'function' || key.kind !== 'header') return undefined
  const reading = parseKey([''], key.syntax)
  return 'invalid' in reading ? reading.invalid : undefined
}
