import { type Answer, reply } from './answer.js'

/**
 * The answers that the system itself stores, as problem details (RFC 9457). They reveal nothing that was stored or thrown.
 */
export const outcomeUnknown: Answer = problem(
  500,
  'outcome_unknown',
  'The outcome of this request is unknown',
  'The server cannot tell whether this request took effect, and must not simply try it again. ' +
    'Find out whether it did before you send it with a new key.',
)

export const workFailed: Answer = problem(
  500,
  'work_failed',
  'The request failed',
  'The server failed while it worked on this request, and the failure is final for this key. ' +
    'Check whether the request took effect before you send it with a new key.',
)

export const neverStarted: Answer = problem(
  408,
  'never_started',
  'The request was not started in time',
  'The request was accepted, but nothing was done before its time was over. Send it again with a new key.',
)

/** The stored reason for a key whose holder went without finishing, releasing or renewing. */
export const holderGone = 'the holder stopped without a word'

/** The stored reason for an unfinished key past its retention. */
export const nobodyCame = 'nobody came back for it within its retention'

function problem(status: number, code: string, title: string, detail: string): Answer {
  return reply(status, { type: `urn:oncekey:problem:${code}`, title, status, detail, code }, { 'content-type': 'application/problem+json' })
}
