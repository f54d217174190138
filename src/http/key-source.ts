import { isOncekeyError, OncekeyError } from '../core/errors.js'
import { checkKeyRef } from '../core/key.js'
import { isJson } from '../core/media-type.js'
import { jsonBody } from './json-body.js'
import { type KeyReading, type KeySyntax, parseKey } from './parse-key.js'
import { type HttpRequest, mediaTypeOf } from './request.js'

export interface HeaderSource {
  readonly kind: 'header'
  readonly name: string
  /** Undefined: that of the profile. */
  readonly syntax?: KeySyntax
}

export interface FieldSource {
  readonly kind: 'field'
  /** The names of members, from the outermost, with dots between them. */
  readonly path: string
}

/** Where the key comes from: `header()`, `field()`, or a function of what the framework calls a request. */
export type KeySource<Native = unknown> = HeaderSource | FieldSource | ((request: Native) => MaybeKey | Promise<MaybeKey>)

type MaybeKey = string | undefined | null

export interface HeaderOptions {
  /**
   * `'strict'` refuses keys without quotes, so that a client which does not keep to the IETF draft learns it at once. `'lenient'`
   * takes them, and `abc` is the same key as `"abc"`. `'opaque'` takes the value as it is: `abc` and `"abc"` are two keys. Default
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

/** A token of RFC 9110, which is what names of headers are. */
const fieldName = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/

/**
 * The key is a text in the JSON body, such as the client's own reference. Dots lead to members of members; a member of an element of
 * an array, or one with a dot in its name, needs a function.
 *
 * @example field('transfer.client_reference')
 */
export function field(path: string): FieldSource {
  if (typeof path !== 'string' || path.split('.').includes('')) {
    throw new OncekeyError('option_invalid', "field() needs the names of members with dots between them, such as 'transfer.reference'.")
  }
  return { kind: 'field', path }
}

/** What a function throws comes out of here as it is. */
export async function readKey<Native>(source: KeySource<Native>, request: HttpRequest<Native>): Promise<KeyReading> {
  if (typeof source === 'function') return readingOf(await source(request.native))
  return source.kind === 'header' ? readHeader(source, request) : readField(source, request)
}

export function readHeader({ name, syntax = 'lenient' }: HeaderSource, request: Pick<HttpRequest, 'headerLines'>): KeyReading {
  return parseKey(request.headerLines(name), syntax)
}

async function readField({ path }: FieldSource, request: HttpRequest): Promise<KeyReading> {
  const body = await request.body()
  // Not "missing": where a key is optional, the request would run unprotected.
  if ('failed' in body) return { invalid: `The body did not arrive whole, and the key is its member "${path}". Send it again.` }
  const json = 'parsed' in body ? { value: body.parsed } : membersOf(body.bytes, mediaTypeOf(request))
  // Nor here: a parser behind us may be able to read what we cannot, such as a compressed body.
  if (!json) return { invalid: `The body is not JSON in UTF-8, and the key is its member "${path}". Send it so, and not compressed.` }
  const reading = readingOf(memberAt(json.value, path))
  return 'invalid' in reading ? { invalid: `${reading.invalid} It is the body's member "${path}".` } : reading
}

/** What is not called JSON has no members. Undefined for what is, and cannot be read as such. */
function membersOf(bytes: Uint8Array, mediaType: string): { readonly value: unknown } | undefined {
  return isJson(mediaType) && bytes.length > 0 ? jsonBody(bytes) : { value: undefined }
}

/** Own members of objects only: neither a prototype's, nor the length of an array or a text. */
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
