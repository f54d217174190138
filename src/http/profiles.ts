import { type Answer, type HeaderPair, reply } from '../core/answer.js'
import type { KeySyntax } from './parse-key.js'
import { type Problem, type ProblemCode, problems } from './problems.js'

/** A dialect of the contract. */
export interface Profile {
  readonly name: string
  /** The protected methods; others pass untouched. */
  readonly methods: readonly string[]
  /** Which keys may meet. */
  readonly scope: 'endpoint' | 'tenant'
  /** The syntax of a key in a header, unless `header()` sets it. Default `'lenient'`. */
  readonly keySyntax?: KeySyntax
  /** Whether `serve()` requires a key. */
  readonly serveRequiresKey: boolean
  /** Whether an error that an operation throws is stored and replayed. */
  readonly storeErrors: boolean
  /** Whether answers have a `Request-Id`, and replays also the `Original-Request`. */
  readonly requestIds: boolean
  /** The answer to an error of the layer. */
  readonly render: (problem: Problem, documentation: Documentation) => Answer
}

/** The URLs of the pages about problems: `type` and `Link` are made from it. */
export interface Documentation {
  type(code: ProblemCode): string
  page(code: ProblemCode): string
}

/** draft-ietf-httpapi-idempotency-key-header-07, with problem details as in RFC 9457. */
export const ietf: Profile = {
  name: 'ietf',
  methods: ['POST', 'PATCH'],
  scope: 'endpoint',
  serveRequiresKey: true,
  storeErrors: false,
  requestIds: false,
  render: problemDetails,
}

/** Compatible with Stripe's v1 API, so that Stripe's clients work against it. */
export const stripe: Profile = {
  name: 'stripe',
  keySyntax: 'opaque',
  methods: ['POST'],
  scope: 'tenant',
  serveRequiresKey: false,
  storeErrors: true,
  requestIds: true,
  render: stripeError,
}

export const profiles = { ietf, stripe } as const

function problemDetails({ code, detail, members, retryAfterSeconds }: Problem, documentation: Documentation): Answer {
  const { status, title, detail: standard } = problems[code]
  return reply(status, { type: documentation.type(code), title, status, detail: detail ?? standard, code, ...members }, [
    ['content-type', 'application/problem+json'],
    ...commonHeaders(code, retryAfterSeconds, documentation),
  ])
}

/** Where Stripe differs from ours: status, type and code of the error object. */
const stripeWords: Partial<Record<ProblemCode, { status?: number; type: string; code?: string }>> = {
  key_reused: { status: 400, type: 'idempotency_error' },
  key_in_use: { type: 'invalid_request_error', code: 'idempotency_key_in_use' },
}

const stripeReuse = {
  endpoint: 'Keys for idempotent requests can only be used for the same endpoint they were first used for.',
  parameters: 'Keys for idempotent requests can only be used with the same parameters they were first used with.',
}

function stripeError({ code, detail, members, retryAfterSeconds }: Problem, documentation: Documentation): Answer {
  const { status: standardStatus, detail: standard } = problems[code]
  const { status = standardStatus, type, code: stripeCode = code } = stripeWords[code] ?? { type: standardTypeOf(standardStatus) }
  const part = members?.part
  const message =
    code === 'key_reused'
      ? `${part === 'method' || part === 'path' ? stripeReuse.endpoint : stripeReuse.parameters} Use a new key for a new request.`
      : (detail ?? standard)
  return reply(status, { error: { type, code: stripeCode, message, doc_url: documentation.page(code), ...members } }, [
    ['content-type', 'application/json'],
    // Stripe's clients retry every 5xx, unless told not to.
    ...(isFinal.has(code) ? [['stripe-should-retry', 'false'] as const] : []),
    ...commonHeaders(code, retryAfterSeconds, documentation),
  ])
}

const isFinal = new Set<ProblemCode>(['outcome_unknown', 'work_failed'])

const standardTypeOf = (status: number) => (status >= 500 ? 'api_error' : 'invalid_request_error')

function commonHeaders(code: ProblemCode, retryAfterSeconds: number | undefined, { page }: Documentation): HeaderPair[] {
  const link: HeaderPair = ['link', `<${page(code)}>; rel="describedby"`]
  return retryAfterSeconds === undefined ? [link] : [link, ['retry-after', String(retryAfterSeconds)]]
}
