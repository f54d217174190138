import { type Answer, reply } from './answer.js'

/**
 * The answers that the system itself stores, as problem details (RFC 9457). They say nothing of what was stored or thrown.
 */
export const outcomeUnknown: Answer = problem(
  'outcome_unknown',
  'The outcome of this request is unknown',
  'The server cannot tell whether this request took effect, and must not simply try it again. ' +
    'Find out whether it did before you send it with a new key.',
)

export const workFailed: Answer = problem(
  'work_failed',
  'The request failed',
  'The server failed while it worked on this request, and the failure is final for this key. ' +
    'Check whether the request took effect before you send it with a new key.',
)

/** The reason that is noted with a key whose holder went without finishing, releasing or renewing. */
export const holderGone = 'the holder stopped without a word'

function problem(code: string, title: string, detail: string): Answer {
  return reply(
    500,
    { type: `urn:oncekey:problem:${code}`, title, status: 500, detail, code },
    { 'content-type': 'application/problem+json' },
  )
}
