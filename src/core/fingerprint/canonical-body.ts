import { OncekeyError } from '../errors.js'
import { jsonText } from '../json-text.js'
import { isJson } from '../media-type.js'
import { canonicalJson } from './canonical-json.js'
import { withoutMembers } from './exclusions.js'
import { isFaithfulJson } from './faithful-json.js'

/** What stands for a body, and how it was made: bodies made in different ways are never equal. A text counts as its UTF-8. */
export interface CanonicalBody {
  readonly form: 'none' | 'json' | 'bytes' | 'text'
  readonly content: Uint8Array | string
}

const loneSurrogate = /\p{Surrogate}/u
const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { fatal: true })
const none: CanonicalBody = { form: 'none', content: '' }

/**
 * RFC 8785 for JSON, the bytes themselves for all else, and also for JSON that parsing would change (duplicate members,
 * numbers beyond a double), that is not valid, or that is nested absurdly deep: then only the very same bytes are equal.
 */
export function canonicalBody(body: Uint8Array | string | undefined, mediaType: string, excluded: readonly string[]): CanonicalBody {
  if (body === undefined) return none
  if (typeof body !== 'string' && !(body instanceof Uint8Array)) {
    throw new OncekeyError('fingerprint_input_invalid', 'The body to fingerprint is a text or a Uint8Array; pass a parsed one as `value`.')
  }
  if (body.length === 0) return none
  // Such a text has no UTF-8 form: an encoder would make the same bytes of different ones.
  if (typeof body === 'string' && loneSurrogate.test(body)) return { form: 'text', content: Buffer.from(body, 'utf16le') }
  const bytes = typeof body === 'string' ? encoder.encode(body) : body
  const json = isJson(mediaType) ? meaningOf(bytes, excluded) : null
  return json === null ? { form: 'bytes', content: bytes } : { form: 'json', content: json }
}

/** A value that was parsed already, where nobody kept the bytes. What its parser dropped cannot be seen any more. */
export function canonicalValue(value: unknown, excluded: readonly string[]): CanonicalBody {
  return canonicalBody(jsonText(value, notJson), 'application/json', excluded)
}

const notJson = (cause: unknown) =>
  new OncekeyError('fingerprint_input_invalid', 'The value to fingerprint is not JSON: it has a BigInt, a cycle, or is a function.', {
    cause,
  })

function meaningOf(bytes: Uint8Array, excluded: readonly string[]): string | null {
  try {
    const text = decoder.decode(bytes)
    const value: unknown = JSON.parse(text)
    return isFaithfulJson(text, value) ? (canonicalJson(withoutMembers(value, excluded)) ?? null) : null
  } catch {
    // Not UTF-8, not JSON, or a lone surrogate: whether that is an error is for the handler to say.
    return null
  }
}
