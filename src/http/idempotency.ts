import { type Answer, checkAnswer } from '../core/answer.js'
import { isStoreTrouble, OncekeyError } from '../core/errors.js'
import type { KeyRef } from '../core/key.js'
import { resolvePolicy, scopeOf } from '../core/policy.js'
import type { Once } from '../create-once.js'
import type { ExecuteOptions } from '../engine/execute.js'
import { HeldRun, type Run } from '../engine/held.js'
import type { OperationRun } from '../phases/operation-run.js'
import { admitBody, admitKey, fingerprintOf, refusalOf } from './admit.js'
import { checkFlag, checkMethods, type IdempotencyOptions, oneOf, resolveHttpOptions } from './options.js'
import { replyTo } from './replies.js'
import { type BodyReading, type HttpRequest, rereadable } from './request.js'
import { requestIdOf } from './request-ids.js'

/** What is to be done with a request. */
export type Handled =
  /** It is not protected: the handler runs as if the layer were not there. */
  | { readonly kind: 'pass' }
  /** The handler ran; what it answered goes out as it is, with these headers added. */
  | { readonly kind: 'own'; readonly headers: Answer['headers'] }
  /** This goes out, and nothing else. */
  | { readonly kind: 'answer'; readonly answer: Answer }

export interface Idempotency<Native, Tx> extends BodyReading {
  /** Larger bodies of answers are not kept. */
  readonly maxAnswerBytes: number
  /** False for a request that certainly passes, so that nothing need be prepared for it. */
  concerns(request: Pick<HttpRequest, 'method' | 'headerLines'>): boolean
  /** Claims the key, and lets `handler` run if that is right. It returns what it answered; its last byte waits for `handle()` to end. */
  handle(request: HttpRequest<Native>, handler: (run: OperationRun<Tx>) => Promise<Answer>): Promise<Handled>
}

/** The contract for a handler that knows nothing of it. Framework-free: adapters turn their requests and answers into these. */
export function idempotencyOf<Native, Tx>(once: Once<Tx>, options: IdempotencyOptions<Native>): Idempotency<Native, Tx> {
  const settings = resolveHttpOptions(options, () => false)
  const { profile, key, tenantOf, waitMs, maxBodyBytes } = settings
  const { afterFailure, failOpen = false, scope = profile.scope, lease, maxRun, retention, retentionFloor } = options
  oneOf('afterFailure', afterFailure, ['rerun', 'store', 'park'])
  if (typeof once?.execute !== 'function') throw new OncekeyError('option_invalid', 'idempotency() needs what createOnce() made.')
  checkFlag('failOpen', options.failOpen)
  const wanted = options.methods ?? profile.methods
  checkMethods(wanted)
  const methods = new Set(wanted.map((method) => method.toUpperCase()))
  const policy = definedOnly({ lease, maxRun, retention, retentionFloor, wait: waitMs })
  // Both checked now: a wrong option is an error at start.
  resolvePolicy(policy)
  scopeOf(scope, { method: 'POST', path: '/' })

  const { arriving } = once.internals.parts.takeFingerprint
  return { maxBodyBytes, maxAnswerBytes: once.maxAnswerBytes, arriving, concerns, handle }

  function concerns(request: Pick<HttpRequest, 'method' | 'headerLines'>): boolean {
    if (!methods.has(request.method.toUpperCase())) return false
    return settings.required || typeof key === 'function' || key.kind !== 'header' || request.headerLines(key.name).length > 0
  }

  async function handle(incoming: HttpRequest<Native>, handler: (run: OperationRun<Tx>) => Promise<Answer>): Promise<Handled> {
    if (!methods.has(incoming.method.toUpperCase())) return { kind: 'pass' }
    const request = rereadable(incoming)
    const admitted = await admitKey(settings, request)
    if ('refusal' in admitted) return { kind: 'answer', answer: admitted.refusal }
    if (admitted.key === undefined) return { kind: 'pass' }
    const received = await admitBody(settings, request)
    if ('refusal' in received) return { kind: 'answer', answer: received.refusal }

    const work = workOf(handler)
    let ref: KeyRef | undefined
    try {
      const tenant = await tenantOf(request.native)
      const fingerprint = fingerprintOf(request, received.body)
      const execution: ExecuteOptions = { tenant, scope: scopeOf(scope, request), key: admitted.key, fingerprint, afterFailure, ...policy }
      ref = execution
      const outcome = await once.execute(execution, work.run)
      if (outcome.kind !== 'executed') return { kind: 'answer', answer: replyTo(settings, outcome) }
      return outcome.answer === work.answer ? own(outcome.incarnation) : { kind: 'answer', answer: outcome.answer }
    } catch (error) {
      return handledFailure(error, ref, work)
    }
  }

  function handledFailure(error: unknown, ref: KeyRef | undefined, work: { readonly started: boolean; readonly error: unknown }): Handled {
    if (error instanceof ServerErrorAnswer) return own(error.incarnation)
    if (!work.started && failOpen && isStoreTrouble(error)) {
      if (ref) once.internals.parts.report(ref, { type: 'failed-open', error })
      return { kind: 'pass' }
    }
    const answer = error === work.error ? undefined : refusalOf(settings, error)
    if (answer) return { kind: 'answer', answer }
    throw error
  }

  function own(incarnation: string): Handled {
    return { kind: 'own', headers: profile.requestIds ? [['request-id', requestIdOf(incarnation)]] : [] }
  }

  /** Runs the handler as a piece of work whose failures are told by its status, too. */
  function workOf(handler: (run: OperationRun<Tx>) => Promise<Answer>) {
    const work = {
      started: false,
      answer: undefined as Answer | undefined,
      /** What the handler itself threw: its framework's business. */
      error: undefined as unknown,
      async run(run: OperationRun<Tx>): Promise<Answer> {
        work.started = true
        try {
          work.answer = checkAnswer(await unlessLost(run, handler(run)))
        } catch (error) {
          if (!run.signal.aborted) work.error = error
          throw error
        }
        if (work.answer.status >= 500 && afterFailure !== 'store') throw new ServerErrorAnswer(work.answer.status, run.incarnation)
        return work.answer
      },
    }
    return work
  }
}

/** Ends the attempt as `afterFailure` says; the client gets the answer all the same. */
class ServerErrorAnswer extends Error {
  constructor(
    status: number,
    readonly incarnation: string,
  ) {
    super(`the handler answered ${status}`)
  }
}

/** A handler that hangs, or that nobody may hear any more, must not keep its client waiting. */
function unlessLost<T>(run: Run, answer: Promise<T>): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    HeldRun.onAbort(run, reject)
    answer.then(resolve, reject)
  })
}

function definedOnly<T extends object>(options: T): { [Name in keyof T]: Exclude<T[Name], undefined> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as never
}
