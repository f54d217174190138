import { maxKeyLength } from '../core/key.js'
import { merged } from './openapi/merge.js'
import { keyProse, requestProse, retentionText, statusProse } from './openapi/prose.js'
import { type HeaderObject, headerEntry, type ResponseObject, responsesOf } from './openapi/responses.js'
import { routeAnswers, statusAnswers } from './openapi/route-answers.js'
import { type AsyncServeOptions, type IdempotencyOptions, resolveHttpOptions, type StatusOptions } from './options.js'
import type { Profile } from './profiles.js'

export type { HeaderObject, MediaTypeObject, ResponseObject, SchemaObject } from './openapi/responses.js'

/**
 * The options of a route, as `idempotency()` or `serve()` has them; with `afterFailure` they are those of `idempotency()`. What it gets
 * from elsewhere, such as the `retention` of an operation or of `createOnce()`, is to be added.
 */
export type RouteOptions = Partial<IdempotencyOptions<never>> &
  Partial<Pick<AsyncServeOptions<never>, 'input' | 'location' | 'pollAfter'>> & {
    respond?: 'sync' | 'async'
    /** What `serve()` serves: one that makes its own key does not insist on one. */
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

/** A protected route, in fragments of OpenAPI 3.1. */
export interface IdempotencyDescription {
  /** The header. Undefined where the key comes from elsewhere. */
  readonly parameter: ParameterObject | undefined
  /** Where the key comes from, what counts as the same request and how long it is remembered, in Markdown. The parameter has it too. */
  readonly description: string
  /** What the layer answers instead of the handler, by status. */
  readonly responses: Readonly<Record<string, ResponseObject>>
  /** What answers of the handler may have besides their own headers. */
  readonly headers: Readonly<Record<string, HeaderObject>>
  /** How long a key is remembered, in words. */
  readonly retention: string
}

/**
 * Describes a protected route. The IETF draft asks a service to publish what its keys look like, how long they live and what it answers;
 * this says it from the options that make it so.
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
            // With the quotes that go around a key.
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

/** The status resource, in fragments of OpenAPI 3.1. */
export type StatusDescription = Pick<IdempotencyDescription, 'description' | 'responses' | 'headers'>

/** Describes the route of `status()`, from its options. Its other answers are those of the operation, with these `headers` added. */
export function describeStatus(options: Partial<StatusOptions<never>>): StatusDescription {
  const settings = resolveHttpOptions<never>({ tenant: 'single', ...options }, () => false)
  return {
    description: statusProse,
    responses: responsesOf(statusAnswers(settings, options.pollAfter)),
    headers: replayHeaders(settings.profile),
  }
}

/** What `withIdempotency()` makes sure of. */
export interface DescribedOperation {
  readonly responses: Readonly<Record<string, unknown>>
  readonly 'x-idempotency-retention': string
}

/**
 * Adds the description to an operation object of OpenAPI 3.1. What is there stays: its parameter of that name, its words, its responses.
 *
 * @example withIdempotency({ summary: 'Create an order', responses: { 201: { description: 'The order' } } }, { retention: '72h' })
 */
export function withIdempotency<Operation extends object>(operation: Operation, options: RouteOptions): Operation & DescribedOperation {
  const { afterFailure } = options
  // An opaque handler's 5xx is its failure, and is kept only if it is to be.
  const keeps = (status: string) => afterFailure === undefined || afterFailure === 'store' || !status.startsWith('5')
  return merged(operation as Readonly<Record<string, unknown>>, describeIdempotency(options), keeps) as Operation & DescribedOperation
}
