/**
 * Every answer of the layer itself. Each has a page in `docs/problems/`, named after it; a test fails when one is missing
 * there.
 */
export const problems = {
  key_missing: {
    status: 400,
    title: 'An idempotency key is required',
    detail: 'Send a key of your own making that is new for each operation, such as a UUID, and send the same one when you retry.',
  },
  key_invalid: {
    status: 400,
    title: 'The idempotency key is malformed',
    detail: 'Send one key of 1 to 255 printable ASCII characters, in double quotes.',
  },
  key_reused: {
    status: 422,
    title: 'The idempotency key was used for another request',
    detail: 'Use a new key for a new request. To retry, send exactly what was sent the first time.',
  },
  key_in_use: {
    status: 409,
    title: 'A request with this idempotency key is in progress',
    detail: 'Wait as long as Retry-After says, then send the same request with the same key again.',
  },
  body_too_large: {
    status: 413,
    title: 'The request is too large',
    detail: 'Nothing was done. Send a smaller request.',
  },
  body_incomplete: {
    status: 400,
    title: 'The request ended early',
    detail: 'Nothing was done. Send the whole request again, with the same key.',
  },
  media_type_unsupported: {
    status: 415,
    title: 'The media type is not supported',
    detail: 'Nothing was done. Send JSON, with Content-Type: application/json.',
  },
  signature_invalid: {
    status: 400,
    title: 'The signature is not valid',
    detail: 'Nothing was done. Sign the exact bytes of the body, with the current secret and the current time, and send it again.',
  },
  input_invalid: {
    status: 400,
    title: 'The request is not valid',
    detail: 'Nothing was done. Correct the request as `issues` says; the same key may be used again.',
  },
  answer_not_kept: {
    status: 410,
    title: 'The request was carried out, but its answer was not kept',
    detail:
      'The request was carried out once and will not be again: read its result elsewhere. Its answer was too large to be kept, or must not be.',
  },
  outcome_unknown: {
    status: 500,
    title: 'The outcome of this request is unknown',
    detail:
      'The server cannot tell whether this request took effect, and must not simply try it again. ' +
      'Find out whether it did before you send it with a new key.',
  },
  work_failed: {
    status: 500,
    title: 'The request failed',
    detail:
      'The server failed while it worked on this request, and the failure is final for this key. ' +
      'Check whether the request took effect before you send it with a new key.',
  },
  never_started: {
    status: 408,
    title: 'The request was not started in time',
    detail: 'The request was accepted, but nothing was done before its time was over. Send it again with a new key.',
  },
  interrupted: {
    status: 503,
    title: 'The request was interrupted',
    detail: 'The server lost track of this request while it worked on it. Send the same request with the same key again.',
  },
  shutting_down: {
    status: 503,
    title: 'The server is shutting down',
    detail: 'Nothing was done. Send the same request with the same key again: another server takes it.',
  },
  store_unavailable: {
    status: 503,
    title: 'The request cannot be protected at the moment',
    detail: 'Send the same request with the same key again in a moment. What was done already is not done again.',
  },
  operation_unknown: {
    status: 404,
    title: 'There is no such operation',
    detail:
      'Check the address: it is the Location of the answer that accepted the request, and only its own sender may read it. ' +
      'An operation that ended long ago is not known any more.',
  },
  operation_expired: {
    status: 410,
    title: 'The answer of this operation is no longer kept',
    detail:
      'The operation has ended, and its answer was kept for as long as was promised. Its key counts as new from now on: ' +
      'find out what became of it before you send the request again.',
  },
} as const

export type ProblemCode = keyof typeof problems

export interface Problem {
  readonly code: ProblemCode
  /** Replaces the standard detail. */
  readonly detail?: string | undefined
  readonly retryAfterSeconds?: number | undefined
  /** Extension members, such as `issues`. */
  readonly members?: Readonly<Record<string, unknown>> | undefined
}
