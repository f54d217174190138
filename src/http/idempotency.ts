import type { Answer } from '../core/answer.js'
import { isStoreTrouble, OncekeyError } from '../core/errors.js'
import type { KeyRef } from '../core/key.js'
import { resolvePolicy, scopeOf } from '../core/policy.js'
import type { Once } from '../create-once.js'
import type { ExecuteOptions } from '../engine/execute.js'
import { admitBody, admitKey, fingerprintOf, type Received, readable, refusalOf } from './admit.js'
import { HandlerAttempt } from './handler-attempt.js'
import { checkFlag, checkMethods, type HttpSettings, type IdempotencyOptions, oneOf, resolveHttpOptions } from './options.js'
import { replyTo } from './replies.js'
import type { BodyReading, HttpRequest } from './request.js'

/** What to do with a request. */
export type Begun<Tx> =
  /** Not protected: the handler runs as if the layer were not there. */
  | { readonly kind: 'pass' }
  /** The handler must not run; send this. */
  | { readonly kind: 'answer'; readonly answer: Answer }
  /** The handler may run. */
  | { readonly kind: 'run'; readonly attempt: HandlerAttempt<Tx> }

export interface Idempotency<Native, Tx> extends BodyReading {
  /** Larger answer bodies are not stored. */
  readonly maxAnswerBytes: number
  /** False for a request that certainly passes, so that adapters need not prepare. */
  concerns(request: Pick<HttpRequest, 'method' | 'headerLines'>): boolean
  /** Claims the key of a request, if it has one. */
  begin(request: HttpRequest<Native>): Promise<Begun<Tx>>
}

/** The contract for an unmodified handler. Framework-free: adapters convert their requests and answers. */
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
  // Checked now, so that a wrong option fails at start.
  resolvePolicy(options)
  scopeOf(scope, { method: 'POST', path: '/' })

  const { open, parts } = once.internals
  const { arriving } = parts.takeFingerprint
  const attemptSettings = { settings: settings as HttpSettings<never>, afterFailure }
  return { maxBodyBytes, maxAnswerBytes: once.maxAnswerBytes, arriving, concerns, begin }

  function concerns(request: Pick<HttpRequest, 'method' | 'headerLines'>): boolean {
    if (!methods.has(request.method.toUpperCase())) return false
    return settings.required || typeof key === 'function' || key.kind !== 'header' || request.headerLines(key.name).length > 0
  }

  async function begin(incoming: HttpRequest<Native>): Promise<Begun<Tx>> {
    if (!methods.has(incoming.method.toUpperCase())) return passes
    const request = readable(settings, incoming)
    const admission = admitKey(settings, request)
    // Not awaited without need: a body that arrives meanwhile has to be read another way.
    const admitted = 'then' in admission ? await admission : admission
    if ('refusal' in admitted) return { kind: 'answer', answer: admitted.refusal }
    if (admitted.key === undefined) return passes
    const received = admitBody(settings, await request.body())
    if ('refusal' in received) return { kind: 'answer', answer: received.refusal }
    return claim(request, received, admitted.key)
  }

  async function claim(request: HttpRequest<Native>, received: Received, sent: string): Promise<Begun<Tx>> {
    let ref: KeyRef | undefined
    try {
      const execution = executionOf(request, received, await tenantOf(request.native), sent)
      ref = execution
      const opened = await open(execution)
      if ('attempt' in opened) return { kind: 'run', attempt: new HandlerAttempt(opened, attemptSettings) }
      return { kind: 'answer', answer: replyTo(settings, opened.outcome) }
    } catch (error) {
      if (failOpen && isStoreTrouble(error)) {
        if (ref) parts.report(ref, { type: 'failed-open', error })
        return passes
      }
      const answer = refusalOf(settings, error)
      if (answer) return { kind: 'answer', answer }
      throw error
    }
  }

  /** All members are always present: on Node 20 conditional object spread takes several microseconds. */
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
}

const passes: Begun<never> = { kind: 'pass' }
