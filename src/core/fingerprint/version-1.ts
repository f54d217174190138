import { createHash, createHmac } from 'node:crypto'
import { mediaTypeEssence } from '../media-type.js'
import { canonicalBody, canonicalValue } from './canonical-body.js'
import { withoutParameters } from './exclusions.js'

/** In this order they are compared, so a request that differs in several parts names the outermost. */
const fingerprintParts = ['method', 'path', 'query', 'mediaType', 'body'] as const

export type FingerprintPart = (typeof fingerprintParts)[number]

/** A request, as far as it says what is to be done. What is left out counts as empty. */
export interface FingerprintRequest {
  method?: string
  path?: string
  /** The raw query string, with or without its question mark. */
  query?: string
  /** The `Content-Type`; case and parameters do not count. */
  mediaType?: string
  /** The raw body. JSON (by its media type) is compared by meaning, all else byte by byte. */
  body?: Uint8Array | string
  /** Instead of `body`: a value that is JSON already, such as a message or an operation's input. */
  value?: unknown
}

interface Settings {
  readonly secret: Uint8Array | null
  readonly exclusions: { readonly body: readonly string[]; readonly query: readonly string[] }
}

/** One way of taking fingerprints. Old ones stay, so that what they stored can still be compared. */
export interface FingerprintVersion {
  readonly number: number
  compute(request: FingerprintRequest, settings: Settings): Uint8Array
  difference(own: Uint8Array, stored: Uint8Array): FingerprintPart | null
}

/** 16 bytes over everything decide; 4 bytes for each part only name the part that differs. */
const wholeLength = 16
const partLength = 4

export const fingerprintV1 = {
  number: 1,

  compute(request, { secret, exclusions }) {
    const digest = (...pieces: (string | Uint8Array)[]) => {
      const hash = secret ? createHmac('sha256', secret) : createHash('sha256')
      for (const piece of pieces) hash.update(piece)
      return hash.digest()
    }
    const mediaType = mediaTypeEssence(request.mediaType ?? '')
    const body =
      request.value === undefined ? canonicalBody(request.body, mediaType, exclusions.body) : canonicalValue(request.value, exclusions.body)
    const parts: Record<FingerprintPart, Uint8Array> = {
      method: digest('method:', (request.method ?? '').toUpperCase()),
      path: digest('path:', request.path ?? ''),
      query: digest('query:', withoutParameters((request.query ?? '').replace(/^\?/, ''), exclusions.query)),
      mediaType: digest('mediaType:', mediaType),
      body: digest(`body:${body.form}:`, body.bytes),
    }
    const inOrder = fingerprintParts.map((name) => parts[name])
    const whole = digest('v1:', ...inOrder).subarray(0, wholeLength)
    return Buffer.concat([whole, ...inOrder.map((part) => part.subarray(0, partLength))])
  },

  difference(own, stored) {
    if (Buffer.compare(own.subarray(0, wholeLength), stored.subarray(0, wholeLength)) === 0) return null
    const differs = (_: FingerprintPart, index: number) => {
      const start = wholeLength + index * partLength
      return Buffer.compare(own.subarray(start, start + partLength), stored.subarray(start, start + partLength)) !== 0
    }
    return fingerprintParts.find(differs) ?? 'body'
  },

  /** Four bytes that stand for a secret's id; never all zero, which says "no secret". */
  secretId(id: string): Uint8Array {
    const bytes = createHash('sha256').update(`secret-id:${id}`).digest().subarray(0, 4)
    return bytes.some((byte) => byte !== 0) ? bytes : Uint8Array.of(0, 0, 0, 1)
  },
} as const satisfies FingerprintVersion & { secretId(id: string): Uint8Array }
