import type { Answer } from '../core/answer.js'
import { OncekeyError } from '../core/errors.js'
import { isJson } from '../core/media-type.js'
import type { EnqueueOutcome, OperationOutcome, RunRequest } from '../phases/admission.js'
import type { Issue } from '../phases/input.js'
import { acceptance } from './accept.js'
import { admitBody, admitKey, fingerprintOf, type Received, readable, refusalOf } from './admit.js'
import { hasInfinity, jsonBody } from './json-body.js'
import { checkFunction, oneOf, resolveHttpOptions, type ServeOptions } from './options.js'
import { problems } from './problems.js'
import { problemReply, replyTo } from './replies.js'
import { type BodyReading, type HttpRequest, mediaTypeOf } from './request.js'
import { withRequestId } from './request-ids.js'
import { hasRun } from './run-of.js'

/** What can be served: an operation or local work. */
export interface Servable {
  readonly name: string
  /** Whether it makes a key from the input if none was sent. */
  readonly makesKey: boolean
  run(request: RunRequest<never>): Promise<OperationOutcome<Answer>>
  /** Absent in local work. */
  enqueue?(request: RunRequest<never>): Promise<EnqueueOutcome<Answer>>
}

export interface Service<Native> extends BodyReading {
  /** Runs the operation for a request. Errors of its body are thrown unchanged. */
  answer(request: HttpRequest<Native>): Promise<Answer>
}

/** The contract for an operation. Framework-free, like `idempotencyOf()`. */
export function serviceOf<Native>(operation: Servable, options: ServeOptions<Native>): Service<Native> {
  if (typeof operation?.run !== 'function') {
    throw new OncekeyError('option_invalid', 'serve() needs an operation: what once.operation() or once.local() made.')
  }
  const settings = resolveHttpOptions(options, (profile) => profile.serveRequiresKey && !operation.makesKey)
  checkFunction('input', options.input)
  oneOf('respond', options.respond ?? 'sync', ['sync', 'async'])
  const accepting = options.respond === 'async' ? acceptance(operation, settings, options) : undefined
  const { profile, tenantOf, waitMs, maxBodyBytes } = settings
  const inputOf = options.input ?? ((_: Native, body: unknown) => body)
  const common = { ...(waitMs === undefined ? {} : { wait: waitMs }), ...(profile.storeErrors ? { storeErrors: true } : {}) }
  return { maxBodyBytes, answer }

  async function answer(incoming: HttpRequest<Native>): Promise<Answer> {
    if (hasRun(incoming.native)) throw layersNested(operation.name, 'serve()')
    const request = readable(settings, incoming)
    const admitted = await admitKey(settings, request)
    if ('refusal' in admitted) return admitted.refusal
    const received = admitBody(settings, await request.body())
    if ('refusal' in received) return received.refusal
    const read = bodyOf(request, received)

    const run: RunRequest<unknown> = {
      tenant: await tenantOf(request.native),
      fingerprint: fingerprintOf(request, received),
      ...common,
      ...keyOf(admitted.key),
      ...('issue' in read ? { input: null, issues: [read.issue] } : { input: await inputOf(request.native, read.value) }),
    }
    try {
      if (!accepting) return answerTo(await operation.run(run as RunRequest<never>), read)
      const outcome = await accepting.enqueue(run as RunRequest<never>)
      return 'id' in outcome ? accepting.reply(outcome, request.native) : answerTo(outcome, read)
    } catch (error) {
      const refusal = refusalOf(settings, error)
      if (refusal) return refusal
      throw error
    }
  }

  /** Without a client's key each request is unique; a random key still makes it resumable. */
  function keyOf(given: string | undefined): { key?: string } {
    if (given !== undefined) return { key: given }
    return operation.makesKey ? {} : { key: crypto.randomUUID() }
  }

  /** The content of a body: its JSON, or the bytes of another media type if `input` converts them. */
  function bodyOf(request: HttpRequest<Native>, body: Received): ReadBody {
    if ('parsed' in body) return kept({ value: body.parsed })
    if (body.bytes.length === 0) return { value: undefined }
    const mediaType = mediaTypeOf(request)
    if (mediaType === '' || isJson(mediaType)) return kept(jsonBody(body.bytes))
    return options.input ? { value: body.bytes } : { issue: { message: problems.media_type_unsupported.title }, isMediaType: true }
  }

  function refused(read: ReadBody, issues: readonly Issue[]): Answer {
    if ('isMediaType' in read) return problemReply(settings, { code: 'media_type_unsupported' })
    return problemReply(settings, { code: 'input_invalid', members: { issues } })
  }

  function answerTo(outcome: OperationOutcome<Answer>, read: ReadBody): Answer {
    switch (outcome.kind) {
      case 'invalid':
        return refused(read, outcome.issues)
      case 'executed':
        // Not final until it is stored: a retry completes it.
        if (!outcome.stored) return problemReply(settings, { code: 'store_unavailable', retryAfterSeconds: 1 })
        return profile.requestIds ? withRequestId(outcome.answer, outcome.incarnation) : outcome.answer
      default:
        return replyTo(settings, outcome)
    }
  }
}

/** The outer layer would store the operation's answer to a duplicate, and prevent it from resuming. */
export const layersNested = (name: string, layer: string) =>
  new OncekeyError(
    'layers_nested',
    `${name} is served behind idempotency(), and protects itself: mount ${layer} in front of idempotency(), or beside it.`,
  )

/** JSON that a later attempt can be given unchanged. */
function kept(read: { readonly value: unknown } | undefined): ReadBody {
  if (!read) return { issue: { message: 'The body is not JSON.' } }
  return hasInfinity(read.value) ? { issue: { message: 'A number in the body is too large.' } } : read
}

/** An invalid body is reported only if the key is unknown: a known one replays, or is a mismatch. */
type ReadBody = { readonly value: unknown } | { readonly issue: Issue; readonly isMediaType?: true }
