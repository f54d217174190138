import { type Answer, checkAnswer } from '../core/answer.js'
import { isStoreTrouble, OncekeyError } from '../core/errors.js'
import type { KeyRef } from '../core/key.js'
import { type AfterFailure, resolvePolicy, scopeOf } from '../core/policy.js'
import type { Once } from '../create-once.js'
import type { ExecuteOptions } from '../engine/execute.js'
import type { Outcome } from '../engine/outcome.js'
import type { Attempt } from '../phases/attempt.js'
import { admitBody, admitKey, fingerprintOf, type Received, readable, refusalOf } from './admit.js'
import { Arrivals } from './arrivals.js'
import { checkFlag, checkMethods, type IdempotencyOptions, oneOf, resolveHttpOptions } from './options.js'
import { replyTo } from './replies.js'
import type { BodyReading, HttpRequest } from './request.js'
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
  /** Claims the key, and lets `handler` run if that is right. The last byte of what it answered waits for `handle()` to end. */
  handle(request: HttpRequest<Native>, handler: Handler<Tx>): Promise<Handled>
}

/** Returns what it answered, or tells `end`: a promise for each request would be for nothing where something else waits for the end. */
// biome-ignore lint/suspicious/noConfusingVoidType: it is what functions return that tell.
export type Handler<Tx> = (attempt: Attempt<Tx>, end: Ending) => Promise<Answer> | void

/** Where a handler's end is told, once. */
export interface Ending {
  answer(answer: Answer): void
  fail(error: unknown): void
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
  // Both checked now: a wrong option is an error at start.
  resolvePolicy(options)
  scopeOf(scope, { method: 'POST', path: '/' })

  const { arriving } = once.internals.parts.takeFingerprint
  const arrivals = new Arrivals()
  return { maxBodyBytes, maxAnswerBytes: once.maxAnswerBytes, arriving, concerns, handle }

  function concerns(request: Pick<HttpRequest, 'method' | 'headerLines'>): boolean {
    if (!methods.has(request.method.toUpperCase())) return false
    return settings.required || typeof key === 'function' || key.kind !== 'header' || request.headerLines(key.name).length > 0
  }

  async function handle(incoming: HttpRequest<Native>, handler: Handler<Tx>): Promise<Handled> {
    if (!methods.has(incoming.method.toUpperCase())) return { kind: 'pass' }
    const request = readable(settings, incoming)
    const admission = admitKey(settings, request)
    // Not `instanceof`: some replace the global Promise, and then what an async function returns is none. It would pass unprotected.
    const admitted = 'then' in admission ? await admission : admission
    if ('refusal' in admitted) return { kind: 'answer', answer: admitted.refusal }
    if (admitted.key === undefined) return { kind: 'pass' }
    const body = request.body()
    const received = admitBody(settings, 'then' in body ? await body : body)
    if ('refusal' in received) return { kind: 'answer', answer: received.refusal }

    const work = new HandlerWork(handler, afterFailure)
    let ref: KeyRef | undefined
    try {
      await arrivals.enter()
      const named = tenantOf(request.native)
      const tenant = typeof named === 'string' ? named : await named
      const execution = executionOf(request, received, tenant, admitted.key)
      ref = execution
      const outcome = await once.internals.attempt(execution, (attempt) => work.run(attempt))
      return handledOutcome(outcome, work)
    } catch (error) {
      return handledFailure(error, ref, work)
    } finally {
      arrivals.leave()
    }
  }

  /** All members are always there, be they undefined: on Node 20 leaving some out with three dots takes several microseconds. */
  function executionOf(request: HttpRequest, body: Received, tenant: string, key: string): ExecuteOptions {
    return {
      tenant,
      scope: scopeOf(scope, request),
      key,
      fingerprint: fingerprintOf(request, body),
      afterFailure,
      lease,
      maxRun,
      retention,
      retentionFloor,
      wait: waitMs,
    } as ExecuteOptions
  }

  function handledOutcome(outcome: Outcome<Answer>, work: HandlerWork<Tx>): Handled {
    if (outcome.kind !== 'executed') return { kind: 'answer', answer: replyTo(settings, outcome) }
    return outcome.answer === work.given ? own(outcome.incarnation) : { kind: 'answer', answer: outcome.answer }
  }

  function handledFailure(error: unknown, ref: KeyRef | undefined, work: HandlerWork<Tx>): Handled {
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
    return profile.requestIds ? { kind: 'own', headers: [['request-id', requestIdOf(incarnation)]] } : ownAsItIs
  }
}

const ownAsItIs: Handled = { kind: 'own', headers: [] }

/** Runs the handler as a piece of work whose failures are told by its status, too. */
class HandlerWork<Tx> implements Ending {
  started = false
  /** What the handler answered. */
  given: Answer | undefined
  /** What the handler itself threw: its framework's business. */
  error: unknown
  readonly #handler: Handler<Tx>
  readonly #afterFailure: AfterFailure
  #attempt!: Attempt<Tx>
  #resolve!: (answer: Answer) => void
  #reject!: (error: unknown) => void

  constructor(handler: Handler<Tx>, afterFailure: AfterFailure) {
    this.#handler = handler
    this.#afterFailure = afterFailure
  }

  run(attempt: Attempt<Tx>): Promise<Answer> {
    this.started = true
    this.#attempt = attempt
    return new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
      // A handler that hangs, or that nobody may hear any more, must not keep its client waiting.
      attempt.holding.onAbort(reject)
      try {
        this.#handler(attempt, this)?.then(
          (answer) => this.answer(answer),
          (error: unknown) => this.fail(error),
        )
      } catch (error) {
        this.fail(error)
      }
    })
  }

  answer(answer: Answer): void {
    try {
      this.given = checkAnswer(answer)
      if (answer.status < 500 || this.#afterFailure === 'store') this.#resolve(answer)
      else this.fail(new ServerErrorAnswer(answer.status, this.#attempt.incarnation))
    } catch (error) {
      this.fail(error)
    }
  }

  fail(error: unknown): void {
    if (!this.#attempt.holding.isAborted) this.error = error
    this.#reject(error)
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
