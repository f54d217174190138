import { maxKeyLength } from '../core/key.js'
import { type IdempotencyOptions, resolveHttpOptions, type ServeOptions } from './options.js'
import { keyProse, requestProse, retentionText } from './openapi/prose.js'
import { type ResponseObject, responsesOf } from './openapi/responses.js'
import { routeAnswers } from './openapi/route-answers.js'

export type { ResponseObject } from './openapi/responses.js'

/**
 * The options of a route, as `idempotency()` or `serve()` has them; with `afterFailure` they are those of `idempotency()`. What the route
 * gets from elsewhere (the `retention` of an operation or of `createOnce()`) is to be added.
 */
export type RouteOptions = Partial<IdempotencyOptions<never>> &
  Partial<ServeOptions<never>> & {
    /** What `serve()` serves: one that makes its own key does not require one. */
    operation?: { readonly makesKey: boolean }
  }

export interface ParameterObject {
  readonly name: string
  readonly in: 'header'
  readonly required: boolean
  readonly description: string
  readonly schema: Readonly<Record<string, unknown>>
  readonly example: string
}

export interface IdempotencyDescription {
  /** The header. Undefined where the key comes from elsewhere. */
  readonly parameter: ParameterObject | undefined
  /** Where the key comes from, what counts as the same request, and how long it is remembered, in Markdown. */
  readonly description: string
  /** What the layer answers instead of the handler, by status. */
  readonly responses: Readonly<Record<string, ResponseObject>>
  /** What every answer of the handler may have besides its own headers. */
  readonly headers: NonNullable<ResponseObject['headers']>
  /** How long a key is remembered, in words. */
  readonly retention: string
}

/**
 * A protected route in fragments of OpenAPI 3.1. The draft asks a service to publish what its keys look like, how long they live and what
 * it answers; this says it from the options that make it so.
 */
export function describeIdempotency(options: RouteOptions): IdempotencyDescription {
  const opaque = options.afterFailure !== undefined
  const settings = resolveHttpOptions({ tenant: 'single', ...options }, ({ serveRequiresKey }) => {
    return !opaque && serveRequiresKey && !options.operation?.makesKey
  })
  const retention = retentionText(options.retention)
  const description = [keyProse(settings), requestProse(settings, { scope: opaque ? options.scope : 'operation', retention })].join('\n\n')
  const { key } = settings
  return {
    parameter:
      typeof key === 'object' && key.kind === 'header'
        ? {
            name: key.name,
            in: 'header',
            required: settings.required,
            description,
            // The quotes of a quoted key are not counted.
            schema: { type: 'string', minLength: 1, maxLength: maxKeyLength },
            example: '"8e03978e-40d5-43dd-bc93-6894a57f9324"',
          }
        : undefined,
    description,
    responses: responsesOf(routeAnswers(settings, options)),
    headers: replayHeaders(settings.profile.requestIds),
    retention,
  }
}

function replayHeaders(requestIds: boolean): IdempotencyDescription['headers'] {
  const answers = [
    ['idempotent-replayed', 'true'],
    ...(requestIds ? [['original-request', 'req_1'], ['request-id', 'req_2']] : []),
  ] as const
  return {}
}
