import type { Answer } from '../../core/answer.js'
import type { RouteAnswer } from './route-answers.js'

export type SchemaObject = Readonly<Record<string, unknown>>

export interface HeaderObject {
  readonly description?: string
  readonly required?: boolean
  readonly schema: SchemaObject
}

export interface MediaTypeObject {
  readonly schema: SchemaObject
  readonly examples: Readonly<Record<string, { readonly summary: string; readonly value: unknown }>>
}

export interface ResponseObject {
  readonly description: string
  readonly headers?: Readonly<Record<string, HeaderObject>>
  readonly content?: Readonly<Record<string, MediaTypeObject>>
}

/** The answers as OpenAPI response objects, by status. */
export function responsesOf(answers: readonly RouteAnswer[]): Record<string, ResponseObject> {
  return Object.fromEntries(groups(answers, ({ answer }) => String(answer.status)).map(([status, some]) => [status, responseOf(some)]))
}

function responseOf(answers: readonly RouteAnswer[]): ResponseObject {
  const titles = answers.map(({ title }) => title)
  return {
    description: titles.length === 1 ? `${titles[0]}.` : `One of:\n${titles.map((title) => `- ${title}.`).join('\n')}`,
    headers: headersOf(answers.map(({ answer }) => answer)),
    content: Object.fromEntries(groups(answers, ({ answer }) => contentTypeOf(answer)).map(([type, some]) => [type, mediaTypeOf(some)])),
  }
}

function groups<T>(items: readonly T[], nameOf: (item: T) => string): [name: string, items: T[]][] {
  const found = new Map<string, T[]>()
  for (const item of items) found.set(nameOf(item), [...(found.get(nameOf(item)) ?? []), item])
  return [...found]
}

const headerOf = ({ headers }: Answer, wanted: string) => headers.find(([name]) => name.toLowerCase() === wanted)?.[1]

/** A custom profile may omit it. */
const contentTypeOf = (answer: Answer) => headerOf(answer, 'content-type') ?? 'application/octet-stream'

/** Headers that all of them have are required. */
function headersOf(answers: readonly Answer[]): Record<string, HeaderObject> {
  const names = new Set(answers.flatMap(({ headers }) => headers.map(([name]) => name.toLowerCase())))
  names.delete('content-type')
  return Object.fromEntries(
    [...names].map((name) => {
      const always = answers.every((answer) => headerOf(answer, name) !== undefined)
      return headerEntry(name, always)
    }),
  )
}

/** A header in its usual spelling, with its description. */
export function headerEntry(name: string, required: boolean): [name: string, header: HeaderObject] {
  const { spelling = name, ...header } = knownHeaders[name] ?? { schema: { type: 'string' } }
  return [spelling, required ? { ...header, required } : header]
}

const knownHeaders: Record<string, HeaderObject & { spelling?: string }> = {
  'retry-after': {
    spelling: 'Retry-After',
    description: 'In how many seconds to ask again: with the same request and the same key, or at the same address.',
    schema: { type: 'integer', minimum: 1 },
  },
  link: { spelling: 'Link', description: 'A page about this problem, with `rel="describedby"`.', schema: { type: 'string' } },
  'idempotent-replayed': {
    spelling: 'Idempotent-Replayed',
    description: 'The answer to an earlier request with this key: nothing was carried out now.',
    schema: { type: 'string', const: 'true' },
  },
  location: {
    spelling: 'Location',
    description: 'Where the state of the operation, and then its answer, can be read.',
    schema: { type: 'string', format: 'uri-reference' },
  },
  'cache-control': { spelling: 'Cache-Control', description: 'Not to be kept by caches.', schema: { type: 'string', const: 'no-store' } },
  'request-id': { spelling: 'Request-Id', description: 'The id of this request.', schema: { type: 'string' } },
  'stripe-should-retry': {
    spelling: 'Stripe-Should-Retry',
    description: "Tells Stripe's clients not to retry.",
    schema: { type: 'string', const: 'false' },
  },
  'original-request': {
    spelling: 'Original-Request',
    description: 'On replays: the id of the request that was carried out.',
    schema: { type: 'string' },
  },
}

function mediaTypeOf(answers: readonly RouteAnswer[]): MediaTypeObject {
  const examples = answers.map(({ code, title, answer }) => ({ code, title, value: jsonOf(answer) }))
  return {
    schema: schemaOf(examples.map(({ value }) => value)),
    examples: Object.fromEntries(examples.map(({ code, title, value }) => [code, { summary: title, value }])),
  }
}

function jsonOf({ body }: Answer): unknown {
  const text = new TextDecoder().decode(body)
  try {
    return JSON.parse(text)
  } catch {
    // A custom profile may answer anything.
    return text
  }
}

/** The common schema of the values, valid in every dialect. Members that identify the answer list their possible values. */
function schemaOf(values: readonly unknown[], name = ''): SchemaObject {
  const about = members[name]
  const kinds = new Set(values.map(kindOf))
  if (kinds.size > 1) return { ...about }
  const [type] = kinds
  if (type === 'object') return { ...about, ...objectSchema(values as Record<string, unknown>[]) }
  if (type === 'array') return { ...about, type, items: schemaOf((values as unknown[][]).flat()) }
  return { ...about, type, ...(telling.has(name) ? { enum: [...new Set(values)] } : {}) }
}

function objectSchema(values: readonly Readonly<Record<string, unknown>>[]): SchemaObject {
  const names = [...new Set(values.flatMap((value) => Object.keys(value)))]
  const having = (name: string) => values.filter((value) => Object.hasOwn(value, name)).map((value) => value[name])
  return {
    type: 'object',
    required: names.filter((name) => having(name).length === values.length),
    properties: Object.fromEntries(names.map((name) => [name, schemaOf(having(name), name)])),
  }
}

function kindOf(value: unknown): string {
  if (Array.isArray(value)) return 'array'
  if (Number.isInteger(value)) return 'integer'
  return value === null ? 'null' : typeof value
}

const telling = new Set(['type', 'code', 'status', 'state'])

const members: Record<string, SchemaObject> = {
  attempt: { description: 'How often it was begun.' },
  createdAt: { description: 'When the request was accepted.', format: 'date-time' },
  code: { description: 'What happened, for programs.' },
  detail: { description: 'What to do, for people.' },
  doc_url: { description: 'A page about this problem.', format: 'uri' },
  id: { description: 'The id of the operation.' },
  issues: { description: 'What is wrong with the request, and where.' },
  message: { description: 'For people.' },
  originalStatus: { description: 'The status of the answer that was not kept.' },
  part: { description: 'Which part of the request is not as it was: method, path, query, mediaType or body.' },
}
