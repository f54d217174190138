import type { HeaderObject, ResponseObject } from './responses.js'

export interface Fragments {
  readonly parameter: { readonly name: string } | undefined
  readonly description: string
  readonly responses: Readonly<Record<string, ResponseObject>>
  /** For the handler's answers that are stored. */
  readonly headers: Readonly<Record<string, HeaderObject>>
  readonly retention: string
}

type Plain = Readonly<Record<string, unknown>>

/** What the author wrote stays; what is missing is added. `kept` says which of the handler's answers may be replayed, by status. */
export function merged(operation: Plain, fragments: Fragments, kept: (status: string) => boolean): Record<string, unknown> {
  const { parameter, description, responses, headers, retention } = fragments
  const own = isPlain(operation.responses) ? operation.responses : {}
  const replayable = Object.entries(own).map(([status, response]) => [status, kept(status) ? withHeaders(response, headers) : response])
  const both: Record<string, unknown> = Object.fromEntries(replayable)
  for (const [status, response] of Object.entries(responses)) both[status] = completed(both[status], response)
  const parameters: readonly unknown[] = Array.isArray(operation.parameters) ? operation.parameters : []
  const isAdded = parameter !== undefined && !parameters.some((one) => isPlain(one) && isSameHeader(one, parameter.name))
  return {
    'x-idempotency-retention': retention,
    ...operation,
    // Without the parameter, the operation has the whole description.
    ...(isAdded ? { parameters: [...parameters, parameter] } : { description: paragraphs(operation.description, description) }),
    responses: both,
  }
}

function paragraphs(...texts: unknown[]): string {
  return texts.filter((text) => typeof text === 'string' && text !== '').join('\n\n')
}

/** A reference cannot be resolved here, so its name decides: two parameters of one name would make the document invalid. */
function isSameHeader({ $ref, in: place, name }: Plain, wanted: string): boolean {
  if (typeof $ref === 'string') return bare($ref.split('/').at(-1) ?? '') === bare(wanted)
  return place === 'header' && String(name).toLowerCase() === wanted.toLowerCase()
}

const bare = (name: string) => name.toLowerCase().replaceAll(/[^a-z0-9]/g, '')

function completed(own: unknown, added: ResponseObject): unknown {
  if (own === undefined) return added
  if (!isPlain(own) || '$ref' in own) return own
  const content = { ...added.content, ...(isPlain(own.content) ? own.content : {}) }
  return { ...(withHeaders(own, optional(added.headers ?? {})) as Plain), content }
}

/** Headers required on our answers are optional on theirs. */
function optional(headers: Readonly<Record<string, HeaderObject>>): Record<string, HeaderObject> {
  return Object.fromEntries(Object.entries(headers).map(([name, { required: _, ...header }]) => [name, header]))
}

function withHeaders(own: unknown, added: Readonly<Record<string, HeaderObject>>): unknown {
  if (!isPlain(own) || '$ref' in own) return own
  const headers = isPlain(own.headers) ? own.headers : {}
  const known = new Set(Object.keys(headers).map((name) => name.toLowerCase()))
  const missing = Object.entries(added).filter(([name]) => !known.has(name.toLowerCase()))
  return { ...own, headers: { ...headers, ...Object.fromEntries(missing) } }
}

const isPlain = (value: unknown): value is Plain => typeof value === 'object' && value !== null && !Array.isArray(value)
