import type { Answer } from '../../core/answer.js'
import type { Duration } from '../../core/duration.js'
import type { AfterFailure } from '../../core/policy.js'
import { neverStarted, outcomeUnknown, workFailed } from '../../core/system-answers.js'
import type { Outcome } from '../../engine/outcome.js'
import { acceptedReply } from '../accept.js'
import { readHeader } from '../key-source.js'
import { type HttpSettings, pollAfterMs, secondsOf } from '../options.js'
import { type Problem, type ProblemCode, problems } from '../problems.js'
import { problemReply, replyTo, type Unfinished, unfinishedReply } from '../replies.js'
import { neverCached } from '../status.js'

/** A possible answer of the layer, rendered as it would be sent. */
export interface RouteAnswer {
  /** The name of the example: a problem code, or the state of an unfinished operation. */
  readonly code: ProblemCode | Unfinished['state']
  readonly title: string
  readonly answer: Answer
}

interface Route {
  /** Undefined for an operation. */
  readonly afterFailure?: AfterFailure | undefined
  readonly failOpen?: boolean | undefined
  /** Undefined for a route that answers when the work is done. */
  readonly async?: { readonly pollAfter?: Duration | undefined } | undefined
}

/** All answers of a route with these settings. They come from the functions that answer requests, so they cannot differ. */
export function routeAnswers(settings: HttpSettings<never>, { afterFailure, failOpen = false, async }: Route): RouteAnswer[] {
  const opaque = afterFailure !== undefined
  const { problem, outcome } = answersIn(settings)
  return [
    ...(settings.required ? [problem({ code: 'key_missing' })] : []),
    problem({ code: 'key_invalid', detail: exampleOfBadKey(settings) }),
    problem({ code: 'body_incomplete' }),
    ...(opaque ? [] : [problem({ code: 'input_invalid', members: { issues: exampleIssues } })]),
    ...(async ? accepted(async) : [outcome('key_in_use', { kind: 'in-progress', retryAfterMs: 15_000 })]),
    outcome('answer_not_kept', replayed(largeAnswer, 'complete')),
    problem({ code: 'body_too_large' }),
    ...(opaque || needsJson(settings) ? [] : [problem({ code: 'media_type_unsupported' })]),
    outcome('key_reused', { kind: 'mismatch', part: 'body' }),
    ...failures(),
    // If the same operation is also served asynchronously.
    ...(opaque ? [] : [outcome('never_started', replayed(neverStarted, 'failed'))]),
    // Only a request that runs the work.
    ...(async ? [] : [problem({ code: 'interrupted', retryAfterSeconds: 1 })]),
    problem({ code: 'shutting_down', retryAfterSeconds: 1 }),
    ...(opaque && failOpen ? [] : [problem({ code: 'store_unavailable', retryAfterSeconds: 1 })]),
  ]

  /** Answers for work that failed and does not run again. */
  function failures(): RouteAnswer[] {
    const failed = outcome('work_failed', replayed(workFailed, 'failed'))
    const lost = outcome('outcome_unknown', replayed(outcomeUnknown, 'failed'))
    const parked = outcome('outcome_unknown', { kind: 'parked', answer: outcomeUnknown })
    if (opaque) return { rerun: [], store: [failed, lost], park: [parked] }[afterFailure]
    // Workers do not know the dialect: an error is stored only if the operation says so.
    return settings.profile.storeErrors && !async ? [failed, parked] : [parked]
  }

  function accepted({ pollAfter }: NonNullable<Route['async']>): RouteAnswer[] {
    const about = { location: `/operations/${exampleId}`, pollAfterMs: pollAfterMs({ pollAfter }) }
    const told = (given: Parameters<typeof acceptedReply>[1]) => acceptedReply(settings, given, about)
    return [
      { code: 'pending', title: titles.pending, answer: told({ kind: 'enqueued', id: exampleId, incarnation: exampleLife }) },
      { code: 'processing', title: titles.processing, answer: told({ kind: 'in-progress', id: exampleId, retryAfterMs: 15_000 }) },
    ]
  }
}

/** All answers of the status resource itself. */
export function statusAnswers(settings: HttpSettings<never>, pollAfter?: Duration): RouteAnswer[] {
  const { problem, outcome } = answersIn(settings)
  const retryAfterSeconds = secondsOf(pollAfterMs({ pollAfter }))
  const unfinished = { id: exampleId, createdAt: '2026-05-01T12:00:00.000Z' }
  const state = (known: Unfinished): RouteAnswer => ({
    code: known.state,
    title: titles[known.state],
    answer: unfinishedReply(settings, 200, known, [['retry-after', String(retryAfterSeconds)]]),
  })
  return [
    state({ ...unfinished, state: 'pending' }),
    state({ ...unfinished, state: 'processing', attempt: 1 }),
    problem({ code: 'operation_unknown' }),
    problem({ code: 'operation_expired' }),
    outcome('answer_not_kept', replayed(largeAnswer, 'complete')),
    outcome('outcome_unknown', { kind: 'parked', answer: outcomeUnknown }),
    outcome('never_started', replayed(neverStarted, 'failed')),
    problem({ code: 'store_unavailable', retryAfterSeconds: 1 }),
  ].map(({ answer, ...rest }) => ({ ...rest, answer: neverCached(answer) }))
}

function answersIn(settings: HttpSettings<never>) {
  const titled = (code: ProblemCode, answer: Answer): RouteAnswer => ({ code, title: problems[code].title, answer })
  return {
    problem: (given: Problem) => titled(given.code, problemReply(settings, given)),
    outcome: (code: ProblemCode, given: Exclude<Outcome, { kind: 'executed' }>) => titled(code, replyTo(settings, given)),
  }
}

const titles = {
  pending: 'The request is accepted, and waits to be carried out',
  processing: 'The request is being carried out',
} as const

const exampleId = '5f1c0a1e-9d2b-8c3f-a7e4-2b6d8f0c1e3a'
const exampleLife = '8e03978e-40d5-43dd-bc93-6894a57f9324'
const largeAnswer: Answer = { status: 201, headers: [], body: new Uint8Array(), omittedBytes: 2_000_000 }

/** If the key is in the JSON, a body that is not JSON has no key. */
const needsJson = ({ key, required }: HttpSettings<never>) => required && typeof key === 'object' && key.kind === 'field'

const replayed = (answer: Answer, state: 'complete' | 'failed') =>
  ({ kind: 'replayed', answer, state, incarnation: exampleLife }) as Extract<Outcome, { kind: 'replayed' }>

/** As a Standard Schema reports them; an issue with the whole has no path. */
const exampleIssues = [{ message: 'Expected a number', path: ['items', 0, 'price'] }, { message: 'The total does not add up' }]

function exampleOfBadKey({ key }: HttpSettings<never>): string | undefined {
  if (typeof key === 'function' || key.kind !== 'header') return undefined
  const reading = readHeader(key, { headerLines: () => [''] })
  return 'invalid' in reading ? reading.invalid : undefined
}
