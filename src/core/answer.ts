import { OncekeyError } from './errors.js'
import type { Json } from './json.js'
import { jsonText } from './json-text.js'

export type HeaderPair = readonly [name: string, value: string]

/** What is stored and replayed: status, headers in order (names may repeat) and body bytes. */
export interface Answer {
  readonly status: number
  readonly headers: readonly HeaderPair[]
  readonly body: Uint8Array
  /**
   * Size of a body that was not stored, because it exceeds the cap or could not be redacted; `body` is empty then. Absent for a whole
   * answer. Stored as at most 2 GiB less one, the limit of some stores.
   */
  readonly omittedBytes?: number
}

declare const bodyType: unique symbol

/** An answer that carries, for the compiler only, the type of its JSON body. */
export interface Reply<Body = unknown> extends Answer {
  readonly [bodyType]?: Body
}

export type HeadersInput = Readonly<Record<string, string | readonly string[]>> | readonly HeaderPair[]

/**
 * Makes an answer. A `Uint8Array` is kept as it is, `undefined` is an empty body, anything else becomes JSON.
 *
 * @example reply(201, { id: order.id }, { location: `/orders/${order.id}` })
 */
export function reply(status: number): Reply<undefined>
export function reply(status: number, body: undefined, headers?: HeadersInput): Reply<undefined>
export function reply(status: number, body: Uint8Array, headers?: HeadersInput): Reply<unknown>
export function reply<Body>(status: number, body: Body, headers?: HeadersInput): Reply<Json<Body>>
export function reply(status: number, body?: unknown, headers: HeadersInput = []): Reply {
  const pairs = headerPairs(headers)
  if (body === undefined) return checkAnswer({ status, headers: pairs, body: new Uint8Array() })
  if (body instanceof Uint8Array) return checkAnswer({ status, headers: pairs, body })
  const typed = pairs.some(([name]) => name.toLowerCase() === 'content-type')
  return checkAnswer({
    status,
    headers: typed ? pairs : [...pairs, ['content-type', 'application/json']],
    body: new TextEncoder().encode(jsonText(body, notJson)),
  })
}

/** The type of a reply's body. */
export type BodyOf<R> = R extends Reply<infer Body> ? Body : never

/** The JSON body of an answer, typed as its `reply()` was. */
export function bodyOf<R extends Answer>(answer: R): BodyOf<R> {
  if (answer.omittedBytes !== undefined) {
    throw new OncekeyError(
      'answer_body_omitted',
      `The answer's body of ${answer.omittedBytes} bytes was over maxAnswerBytes, or redact failed on it, and was not kept. ` +
        'Raise the cap, fix redact, or answer with a reference to the result.',
    )
  }
  if (answer.body.length === 0) return undefined as BodyOf<R>
  return JSON.parse(new TextDecoder().decode(answer.body)) as BodyOf<R>
}

/** The same answer, without its body if that exceeds the cap: the work stays done, and a replay says so. */
export function withinCap(answer: Answer, maxBytes: number): Answer {
  if (answer.body.length <= maxBytes) return answer
  return { status: answer.status, headers: answer.headers, body: new Uint8Array(), omittedBytes: answer.body.length }
}

/** Throws for an answer that cannot be stored or sent. */
export function checkAnswer<A extends Answer>(answer: A): A {
  const problem = problemOf(answer)
  if (!problem) return answer
  throw new OncekeyError('answer_invalid', `The answer cannot be stored: ${problem}. Return what reply(status, body, headers) makes.`)
}

function problemOf(answer: unknown): string | null {
  if (typeof answer !== 'object' || answer === null) return `it is ${answer === null ? 'null' : typeof answer}, not an answer`
  const { status, headers, body, omittedBytes } = answer as Partial<Answer>
  if (!Number.isInteger(status) || (status as number) < 200 || (status as number) > 599)
    return `the status must be an integer from 200 to 599, got ${shown(status)}`
  if (!(body instanceof Uint8Array)) return 'its body is not a Uint8Array'
  if (!Array.isArray(headers)) return 'its headers are not an array of pairs'
  if (omittedBytes !== undefined && !(Number.isSafeInteger(omittedBytes) && omittedBytes >= 0)) return 'its omittedBytes is not a size'
  if (body.length > 0 && bodiless.has(status as number)) return `a ${status} has no body`
  for (const pair of headers) {
    const problem = headerProblem(pair)
    if (problem !== null) return problem
  }
  return null
}

function headerProblem(pair: unknown): string | null {
  if (!Array.isArray(pair)) return `${nameOf(undefined)} is not a header name`
  const name: unknown = pair[0]
  const value: unknown = pair[1]
  if (!isHeaderName(name)) return `${nameOf(name)} is not a header name`
  return typeof value === 'string' && headerValue.test(value) ? null : `the value of header ${name} cannot be sent`
}

/** For an error message: `'201'` is not 201. */
const shown = (value: unknown) => (typeof value === 'string' ? `the string ${JSON.stringify(value)}` : String(value))

const bodiless = new Set([204, 205, 304])

/** For an error message: showing the value must not throw. */
const nameOf = (name: unknown) => (typeof name === 'string' ? JSON.stringify(name) : `a ${typeof name}`)

export function isHeaderName(name: unknown): name is string {
  return typeof name === 'string' && headerName.test(name)
}

const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
/** What HTTP allows in a field value: no control characters but TAB, nothing beyond Latin-1. */
const headerValue = /^[\t\x20-\x7e\x80-\xff]*$/

function headerPairs(headers: HeadersInput): HeaderPair[] {
  if (Array.isArray(headers)) return [...(headers as readonly HeaderPair[])]
  return Object.entries(headers as Record<string, string | readonly string[]>).flatMap(([name, values]) =>
    (Array.isArray(values) ? (values as readonly string[]) : [values as string]).map((value): HeaderPair => [name, value]),
  )
}

const notJson = (cause: unknown) =>
  new OncekeyError('answer_invalid', 'The body is not JSON: it has a BigInt, a cycle, or is a function or a symbol.', { cause })
