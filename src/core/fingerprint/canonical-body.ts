import { OncekeyError } from '../errors.js'
import { jsonText } from '../json-text.js'
import { isUtf8Json } from '../media-type.js'
import { CanonicalScan } from './canonical-scan.js'
import type { ExcludedMembers } from './exclusions.js'
import { scanInTurns, workPerTurn } from './scan-in-turns.js'

/**
 * The bytes that stand for a body, in pieces. They begin with how they were made, so that bodies made in different ways are never equal:
 * `json` is RFC 8785. `bytes` are all others, and also JSON that parsing would change, that is not valid or not in UTF-8, or that is
 * nested absurdly deep: then only the very same bytes are equal. `text` has no UTF-8 form.
 */
export type CanonicalBody = readonly Uint8Array[]

export const bodyPrefix = (form: 'none' | 'json' | 'bytes' | 'text') => Buffer.from(`body:${form}:`)

const [nonePrefix, jsonPrefix, bytesPrefix, textPrefix] = [bodyPrefix('none'), bodyPrefix('json'), bodyPrefix('bytes'), bodyPrefix('text')]
const none: CanonicalBody = [nonePrefix]
const loneSurrogate = /\p{Surrogate}/u

/** A body, or a value that was parsed already, where nobody kept the bytes: what its parser dropped cannot be seen any more. */
export interface BodyOrValue {
  readonly body?: Uint8Array | string | undefined
  readonly value?: unknown
}

/** It is valid until the next call: many share a buffer. */
export function canonicalBody(given: BodyOrValue, mediaType: string, excluded: ExcludedMembers): CanonicalBody {
  const canonical = begun(given, mediaType, excluded)
  if (!(canonical instanceof JsonBody)) return canonical
  while (!canonical.advance());
  return canonical.result
}

/** The same; what takes long is left to later turns of the event loop, and then stays valid. */
export function canonicalBodyInTurns(
  given: BodyOrValue,
  mediaType: string,
  excluded: ExcludedMembers,
): CanonicalBody | Promise<CanonicalBody> {
  const canonical = begun(given, mediaType, excluded)
  if (!(canonical instanceof JsonBody)) return canonical
  return canonical.advance() ? canonical.result : canonical.resultLater()
}

/** Whether nothing that this JSON says is lost when it is parsed. */
export function hasCanonicalJson(text: string): boolean {
  return canonicalBody({ body: text }, 'application/json', [])[0] !== bytesPrefix
}

function begun({ body, value }: BodyOrValue, mediaType: string, excluded: ExcludedMembers): CanonicalBody | JsonBody {
  if (value !== undefined) return new JsonBody(Buffer.from(jsonText(value, notJson)), excluded)
  if (body === undefined) return none
  if (typeof body !== 'string' && !(body instanceof Uint8Array)) {
    throw new OncekeyError('fingerprint_input_invalid', 'The body to fingerprint is a text or a Uint8Array; pass a parsed one as `value`.')
  }
  if (body.length === 0) return none
  // An encoder would make the same bytes of different ones.
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

/** Larger bodies have buffers that are not kept. */
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
    // As long as it is, without the scan's room.
    return this.result.map((piece) => (piece === this.#bytes ? piece : new Uint8Array(piece)))
  }
}
