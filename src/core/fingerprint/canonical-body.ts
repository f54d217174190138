import { OncekeyError } from '../errors.js'
import { jsonText } from '../json-text.js'
import { isUtf8Json } from '../media-type.js'
import { CanonicalScan } from './canonical-scan.js'
import type { ExcludedMembers } from './exclusions.js'
import { scanInTurns, workPerTurn } from './scan-in-turns.js'

/**
 * The canonical bytes of a body, in pieces. They begin with the form, so that bodies of different forms are never equal. `json` is RFC 8785.
 * `bytes` are all others, including JSON that parsing would change, that is invalid, not UTF-8, or nested too deep: these match only byte
 * for byte. `text` has no UTF-8 form.
 */
export type CanonicalBody = readonly Uint8Array[]

export const bodyPrefix = (form: 'none' | 'json' | 'bytes' | 'text') => Buffer.from(`body:${form}:`)

const [nonePrefix, jsonPrefix, bytesPrefix, textPrefix] = [bodyPrefix('none'), bodyPrefix('json'), bodyPrefix('bytes'), bodyPrefix('text')]
const none: CanonicalBody = [nonePrefix]
const loneSurrogate = /\p{Surrogate}/u

/** A body, or a parsed value whose bytes are gone: what its parser dropped is lost. */
export interface BodyOrValue {
  readonly body?: Uint8Array | string | undefined
  readonly value?: unknown
}

/** Valid until the next call: the buffer is shared. */
export function canonicalBody(given: BodyOrValue, mediaType: string, excluded: ExcludedMembers): CanonicalBody {
  const canonical = begun(given, mediaType, excluded)
  if (!(canonical instanceof JsonBody)) return canonical
  while (!canonical.advance());
  return canonical.result
}

/** The same; long work is left to later turns of the event loop, and its result stays valid. */
export function canonicalBodyInTurns(
  given: BodyOrValue,
  mediaType: string,
  excluded: ExcludedMembers,
): CanonicalBody | Promise<CanonicalBody> {
  const canonical = begun(given, mediaType, excluded)
  if (!(canonical instanceof JsonBody)) return canonical
  return canonical.advance() ? canonical.result : canonical.resultLater()
}

/** Whether parsing this JSON loses nothing. */
export function hasCanonicalJson(text: string): boolean {
  return canonicalBody({ body: text }, 'application/json', [])[0] !== bytesPrefix
}

function begun({ body, value }: BodyOrValue, mediaType: string, excluded: ExcludedMembers): CanonicalBody | JsonBody {
  if (value !== undefined) return new JsonBody(Buffer.from(jsonText(value, notJson)), excluded)
  if (body === undefined) return none
  if (typeof body !== 'string' && !(body instanceof Uint8Array)) {
    throw new OncekeyError(
      'fingerprint_input_invalid',
      'The body to fingerprint must be a string or a Uint8Array; pass a parsed one as `value`.',
    )
  }
  if (body.length === 0) return none
  // UTF-8 would make the same bytes of different lone surrogates.
  if (typeof body === 'string' && loneSurrogate.test(body)) return [textPrefix, Buffer.from(body, 'utf16le')]
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  return isUtf8Json(mediaType) ? new JsonBody(bytes, excluded) : [bytesPrefix, bytes]
}

const notJson = (cause: unknown) =>
  cause instanceof RangeError
    ? new OncekeyError('input_invalid', 'The value to fingerprint is nested too deep, or is too large, to be written as JSON.', { cause })
    : new OncekeyError('fingerprint_input_invalid', 'The value to fingerprint is not JSON: it has a BigInt, a cycle, or is a function.', {
        cause,
      })

/** Larger bodies get their own buffers, which are not kept. */
const mostShared = 1 << 16

let shared = new CanonicalScan()

class JsonBody {
  readonly #bytes: Uint8Array
  readonly #scan: CanonicalScan

  constructor(bytes: Uint8Array, excluded: ExcludedMembers) {
    this.#bytes = bytes
    this.#scan = bytes.length > mostShared ? new CanonicalScan() : shared
    this.#scan.begin(bytes, jsonPrefix, excluded)
  }

  advance(): boolean {
    return this.#scan.advance(workPerTurn)
  }

  get result(): CanonicalBody {
    const json = this.#scan.result
    return json ? [json] : [bytesPrefix, this.#bytes]
  }

  async resultLater(): Promise<CanonicalBody> {
    if (this.#scan === shared) shared = new CanonicalScan()
    await scanInTurns(this.#scan)
    // Copied, without the scan's spare room.
    return this.result.map((piece) => (piece === this.#bytes ? piece : new Uint8Array(piece)))
  }
}
