import type { Answer } from '../core/answer.js'
import { OncekeyError } from '../core/errors.js'
import type { EnqueueOutcome, RunRequest } from '../phases/admission.js'
import { type AsyncServeOptions, type HttpSettings, needsFunction, pollAfterMs, secondsOf } from './options.js'
import { unfinishedReply } from './replies.js'
import type { Servable } from './serve.js'

/** The outcome of an accepted request, new or repeated, that has no answer yet. */
type AcceptedOutcome = Extract<EnqueueOutcome<Answer>, { kind: 'enqueued' | 'in-progress' }>

interface Acceptance<Native> {
  enqueue(request: RunRequest<never>): Promise<EnqueueOutcome<Answer>>
  /** 202 with `Location`. */
  reply(outcome: AcceptedOutcome, native: Native): Answer
}

/** Handles requests that are enqueued for workers. */
export function acceptance<Native>(
  operation: Servable,
  settings: HttpSettings<Native>,
  options: AsyncServeOptions<Native>,
): Acceptance<Native> {
  const { location } = options
  if (typeof operation.enqueue !== 'function') {
    throw new OncekeyError(
      'option_invalid',
      `respond is 'async', but ${operation.name} is local work: it leaves nothing that a worker could go on with. Make it with once.operation().`,
    )
  }
  needsFunction('location', location, "a function that makes the address of the status resource of an id: respond is 'async'")
  const pollAfter = pollAfterMs(options)

  return {
    enqueue: operation.enqueue.bind(operation),

    reply: (outcome, native) => acceptedReply(settings, outcome, { location: location(outcome.id, native), pollAfterMs: pollAfter }),
  }
}

/** The first request and its duplicates get the same, except for the state. */
export function acceptedReply(
  settings: Pick<HttpSettings<never>, 'profile' | 'documentation' | 'whenInProgress'>,
  outcome: AcceptedOutcome,
  { location, pollAfterMs }: { readonly location: string; readonly pollAfterMs: number },
): Answer {
  const leaseLeftMs = outcome.kind === 'in-progress' ? outcome.retryAfterMs : 0
  const unfinished = { id: outcome.id, state: leaseLeftMs > 0 ? 'processing' : 'pending' } as const
  const headers = [
    ['location', location],
    ['retry-after', String(secondsOf(leaseLeftMs > 0 ? leaseLeftMs : pollAfterMs))],
  ] as const
  return unfinishedReply(settings, 202, unfinished, headers, outcome.kind === 'enqueued' ? outcome.incarnation : undefined)
}
