import { isOncekeyError, OncekeyError } from '../core/errors.js'
import { checkKeyRef } from '../core/key.js'
import { isJson } from '../core/media-type.js'
import { jsonBody } from './json-body.js'
import { type KeyReading, type KeySyntax, parseKey } from './parse-key.js'
import { type HttpRequest, mediaTypeOf } from './request.js'

export interface HeaderSource {
  readonly kind: 'header'
  readonly name: string
  /** Undefined: the profile's. */
  readonly syntax?: KeySyntax
}

export interface FieldSource {
  readonly kind: 'field'
  /** Member names from the outermost, joined by dots. */
  readonly path: string
}

/** Where the key comes from: `header()`, `field()`, or a function of the framework's request. */
export type KeySource<Native = unknown> = HeaderSource | FieldSource | ((request: Native) => MaybeKey | Promise<MaybeKey>)

type MaybeKey = string | undefined | null

export interface HeaderOptions {
  /**
   * `'strict'` refuses keys without quotes, so that a client that violates the IETF draft learns it at once. `'lenient'` takes them,
   * and `abc` is the same key as `"abc"`. `'opaque'` takes the value as it is: `abc` and `"abc"` are two keys. Default
   * `'lenient'` (profile `stripe`: `'opaque'`).
   */
  syntax?: KeySyntax
}

/** The key is the value of a header. */
export function header(name = 'Idempotency-Key', { syntax }: HeaderOptions = {}): HeaderSource {
  if (typeof name !== 'string' || !fieldName.test(name)) {
    throw new OncekeyError('option_invalid', "header() needs a header's name, such as 'Idempotency-Key'.")
  }
  if (syntax === undefined) return { kind: 'header', name }
  if (!syntaxes.includes(syntax)) throw new OncekeyError('option_invalid', "syntax is 'lenient', 'strict' or 'opaque'.")
  return { kind: 'header', name, syntax }
}

const syntaxes: readonly KeySyntax[] = ['lenient', 'strict', 'opaque']

/** A token of RFC 9110, the syntax of header names. */
const fieldName = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/

/**
 * The key is a string in the JSON body, such as the client's own reference. Dots lead to nested members; array elements and names
 * with dots need a function.
 *
 * @example field('transfer.client_reference')
 */
export function field(path: string): FieldSource {
  if (typeof path !== 'string' || path.split('.').includes('')) {
    throw new OncekeyError('option_invalid', "field() needs the names of members with dots between them, such as 'transfer.reference'.")
  }
  return { kind: 'field', path }
}

/** Errors of a function are thrown unchanged. */
export async function readKey<Native>(source: KeySource<Native>, request: HttpRequest<Native>): Promise<KeyReading> {
  if (typeof source === 'function') return readingOf(await source(request.native))
  return source.kind === 'header' ? readHeader(source, request) : readField(source, request)
}

export function readHeader({ name, syntax = 'lenient' }: HeaderSource, request: Pick<HttpRequest, 'headerLines'>): KeyReading {
  return parseKey(request.headerLines(name), syntax)
}

async function readField({ path }: FieldSource, request: HttpRequest): Promise<KeyReading> {
  const body = await request.body()
  // Not "missing": with an optional key, the request would run unprotected.
  if ('failed' in body) return { invalid: `The body did not arrive whole, and the key is its member "${path}". Send it again.` }
  const json = 'parsed' in body ? { value: body.parsed } : membersOf(body.bytes, mediaTypeOf(request))
  // Nor here: a parser behind us may read what we cannot, such as a compressed body.
  if (!json) return { invalid: `The body is not JSON in UTF-8, and the key is its member "${path}". Send it so, and not compressed.` }
  const reading = readingOf(memberAt(json.value, path))
  return 'invalid' in reading ? { invalid: `${reading.invalid} It is the body's member "${path}".` } : reading
}

/** A body of another media type has no members. Undefined for invalid JSON. */
function membersOf(bytes: Uint8Array, mediaType: string): { readonly value: unknown } | undefined {
  return isJson(mediaType) && bytes.length > 0 ? jsonBody(bytes) : { value: undefined }
}

/** Own members of objects only: no prototype members, no length of an array or string. */
function memberAt(value: unknown, path: string): unknown {
  return path.split('.').reduce<unknown>((at, name) => (isObject(at) && Object.hasOwn(at, name) ? at[name] : undefined), value)
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value)

function readingOf(key: unknown): KeyReading {
  if (key === undefined || key === null) return { missing: true }
  try {
    return { key: checkKeyRef({ tenant: 'any', scope: 'any', key: key as string }).key }
  } catch (error) {
    if (isOncekeyError(error, 'key_invalid')) return { invalid: error.message }
    throw error
  }
}
