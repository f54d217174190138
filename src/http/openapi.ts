import { maxKeyLength } from '../core/key.js'
import { merged } from './openapi/merge.js'
import { keyProse, requestProse, retentionText, statusProse } from './openapi/prose.js'
import { type HeaderObject, headerEntry, type ResponseObject, responsesOf } from './openapi/responses.js'
import { routeAnswers, statusAnswers } from './openapi/route-answers.js'
import { type AsyncServeOptions, type IdempotencyOptions, resolveHttpOptions, type StatusOptions } from './options.js'
import type { Profile } from './profiles.js'

export type { HeaderObject, MediaTypeObject, ResponseObject, SchemaObject } from './openapi/responses.js'

/**
 * The options of a route, as given to `idempotency()` or `serve()`; with `afterFailure` they are those of `idempotency()`. Add what is set
 * elsewhere, such as the `retention` of an operation or of `createOnce()`.
 */
export type RouteOptions = Partial<IdempotencyOptions<never>> &
  Partial<Pick<AsyncServeOptions<never>, 'input' | 'location' | 'pollAfter'>> & {
    respond?: 'sync' | 'async'
    /** What `serve()` serves: one that makes its own key requires none. */
    operation?: { readonly makesKey: boolean }
  }

export interface ParameterObject {
  readonly name: string
  readonly in: 'header'
  readonly required: boolean
  readonly description: string
  readonly schema: { readonly type: 'string'; readonly minLength: number; readonly maxLength: number }
  readonly example: string
}

/** A protected route, as fragments of OpenAPI 3.1. */
export interface IdempotencyDescription {
  /** The header. Undefined if the key comes from elsewhere. */
  readonly parameter: ParameterObject | undefined
  /** Where the key comes from, what counts as the same request and how long a key is kept, in Markdown. Also part of the parameter. */
  readonly description: string
  /** Answers of the layer itself, by status. */
  readonly responses: Readonly<Record<string, ResponseObject>>
  /** Headers added to answers of the handler. */
  readonly headers: Readonly<Record<string, HeaderObject>>
  /** How long a key is kept, in words. */
  readonly retention: string
}

/**
 * Describes a protected route, generated from its options. The IETF draft asks a service to publish the syntax of its keys, their lifetime
 * and its answers.
 */
export function describeIdempotency(options: RouteOptions): IdempotencyDescription {
  const { afterFailure, failOpen, scope, operation, respond, pollAfter } = options
  const opaque = afterFailure !== undefined
  const makesKey = !opaque && operation?.makesKey === true
  const settings = resolveHttpOptions({ tenant: 'single', ...options }, ({ serveRequiresKey }) => !opaque && serveRequiresKey && !makesKey)
  const { key, required, profile } = settings
  const retention = retentionText(options.retention)
  const meetWithin = opaque ? (scope ?? profile.scope) : 'operation'
  const description = `${keyProse(settings, makesKey)}\n\n${requestProse(settings, meetWithin, retention, respond === 'async')}`
  return {
    parameter:
      typeof key === 'object' && key.kind === 'header'
        ? {
            name: key.name,
            in: 'header',
            required,
            description,
            // Including the quotes around a key.
            schema: { type: 'string', minLength: 1, maxLength: key.syntax === 'opaque' ? maxKeyLength : maxKeyLength + 2 },
            example: key.syntax === 'opaque' ? exampleKey : `"${exampleKey}"`,
          }
        : undefined,
    description,
    responses: responsesOf(routeAnswers(settings, { afterFailure, failOpen, async: respond === 'async' ? { pollAfter } : undefined })),
    headers: replayHeaders(profile),
    retention,
  }
}

const exampleKey = '8e03978e-40d5-43dd-bc93-6894a57f9324'

function replayHeaders({ requestIds }: Profile): Record<string, HeaderObject> {
  const names = ['idempotent-replayed', ...(requestIds ? ['request-id', 'original-request'] : [])]
  return Object.fromEntries(names.map((name) => headerEntry(name, false)))
}

/** The status resource, as fragments of OpenAPI 3.1. */
export type StatusDescription = Pick<IdempotencyDescription, 'description' | 'responses' | 'headers'>

/** Describes the route of `status()`, from its options. Its other answers are the operation's, with these `headers` added. */
export function describeStatus(options: Partial<StatusOptions<never>>): StatusDescription {
  const settings = resolveHttpOptions<never>({ tenant: 'single', ...options }, () => false)
  return {
    description: statusProse,
    responses: responsesOf(statusAnswers(settings, options.pollAfter)),
    headers: replayHeaders(settings.profile),
  }
}

/** What `withIdempotency()` guarantees. */
export interface DescribedOperation {
  readonly responses: Readonly<Record<string, unknown>>
  readonly 'x-idempotency-retention': string
}

/**
 * Adds the description to an OpenAPI 3.1 operation object. Existing parameters, texts and responses stay.
 *
 * @example withIdempotency({ summary: 'Create an order', responses: { 201: { description: 'The order' } } }, { retention: '72h' })
 */
export function withIdempotency<Operation extends object>(operation: Operation, options: RouteOptions): Operation & DescribedOperation {
  const { afterFailure } = options
  // A handler's 5xx is a failure, stored only with 'store'.
  const keeps = (status: string) => afterFailure === undefined || afterFailure === 'store' || !status.startsWith('5')
  return merged(operation as Readonly<Record<string, unknown>>, describeIdempotency(options), keeps) as Operation & DescribedOperation
}
