import { digest, digesting } from '../digest.js'
import { isUtf8Json, mediaTypeEssence } from '../media-type.js'
import { ArrivingBody } from './arriving-body.js'
import { type BodyOrValue, bodyPrefix, type CanonicalBody, canonicalBody, canonicalBodyInTurns } from './canonical-body.js'
import { type ExcludedMembers, withoutParameters } from './exclusions.js'

/** Compared in this order, so a request that differs in several parts names the outermost. */
const fingerprintParts = ['method', 'path', 'query', 'mediaType', 'body'] as const

export type FingerprintPart = (typeof fingerprintParts)[number]

/** The parts of a request that say what to do. An absent part counts as empty. */
export interface FingerprintRequest {
  method?: string
  path?: string
  /** The raw query string, with or without its question mark. */
  query?: string
  /** The `Content-Type`. Case and parameters are ignored, except a charset: see `body`. */
  mediaType?: string
  /** The raw body. UTF-8 JSON (by media type) is compared by meaning, all else byte by byte. */
  body?: Uint8Array | string
  /** Instead of `body`: a parsed value, such as a message or an operation's input. */
  value?: unknown
}

/** The form adapters use. */
export interface ReceivedRequest extends FingerprintRequest {
  /** Instead of `body`: one that was hashed as it arrived. */
  arrived?: ArrivingBody
}

export interface FingerprintSettings {
  readonly secret: Uint8Array | null
  readonly exclusions: { readonly body: ExcludedMembers; readonly query: readonly string[] }
  /** Cached digests of all parts but the body, by path. */
  readonly known: Map<string, readonly KnownDigests[]>
}

interface KnownDigests {
  readonly method: string
  readonly query: string
  readonly mediaType: string
  readonly digests: Uint8Array
}

export interface ReadBody {
  readonly canonical: CanonicalBody
  /** The digest of a large body, and the settings it was made with. */
  readonly hashed?: { readonly by: FingerprintSettings; readonly digest: string }
}

/** A fingerprint format. Old versions stay, so that stored fingerprints can be compared. */
export interface FingerprintVersion {
  readonly number: number
  /** Reserves `room` bytes in front for the caller. `body`: the result of `readBody()`, if called. */
  compute(request: ReceivedRequest, settings: FingerprintSettings, room?: number, body?: ReadBody): Uint8Array
  /** The slow part of `compute()`, spread over turns of the event loop if it is too long for one. */
  readBody?(request: ReceivedRequest, settings: FingerprintSettings): ReadBody | Promise<ReadBody> | undefined
  /** A hash for a body of this media type, updated as it arrives; undefined where the body must be complete first. */
  arriving?(mediaType: string, settings: FingerprintSettings): ArrivingBody | undefined
  /** Compares what follows the first `room` bytes. */
  difference(own: Uint8Array, stored: Uint8Array, room?: number): FingerprintPart | null
}

/** 16 bytes over everything decide; 4 bytes per part only name the part that differs. */
const wholeLength = 16
const partLength = 4

export const fingerprintV1 = {
  number: 1,

  compute(request, settings, room = 0, read = undefined) {
    const { secret, exclusions } = settings
    const method = request.method ?? ''
    const path = request.path ?? ''
    const query = request.query ?? ''
    const mediaType = mediaTypeEssence(request.mediaType ?? '')
    const asked = withoutParameters(query.startsWith('?') ? query.slice(1) : query, exclusions.query)
    const inFront = digestsInFront(settings, method.toUpperCase(), path, asked, mediaType)
    // Before the shared buffer is used: a `toJSON` in a value may take another fingerprint.
    const body = bodyDigest(request, settings, read)
    allDigests.set(inFront, wholePrefix.length)
    allDigests.write(body, wholePrefix.length + inFront.length, 'latin1')
    const whole = digest(secret, allDigests)
    // From Node's buffer pool: a new array would take twice as long. All of it is overwritten.
    const computed = Buffer.allocUnsafe(room + wholeLength + fingerprintParts.length * partLength)
    let at = room
    // Byte by byte: views of the buffer would take more memory than all the rest.
    for (let index = 0; index < wholeLength; index += 1) computed[at++] = whole.charCodeAt(index)
    for (let part = 0; part < fingerprintParts.length; part += 1) {
      const from = wholePrefix.length + part * digestLength
      for (let index = from; index < from + partLength; index += 1) computed[at++] = allDigests[index] as number
    }
    return computed
  },

  readBody(request, settings) {
    if (isHashed(request, settings)) return undefined
    const canonical = canonicalBodyInTurns(bodyOf(request), request.mediaType ?? '', settings.exclusions.body)
    return 'then' in canonical ? canonical.then((later) => hashedInTurns(later, settings)) : { canonical }
  },

  arriving(mediaType, settings) {
    if (isUtf8Json(mediaType)) return undefined
    const hash = digesting(settings.secret)
    hash.update(bodyPrefix('bytes'))
    return new ArrivingBody(settings, hash)
  },

  difference(own, stored, room = 0) {
    if (areEqual(own, stored, room, wholeLength)) return null
    const differs = (_: FingerprintPart, index: number) => !areEqual(own, stored, room + wholeLength + index * partLength, partLength)
    return fingerprintParts.find(differs) ?? 'body'
  },

  /** Four bytes for a secret's id; never all zero, which means "no secret". */
  secretId(id: string): Uint8Array {
    const bytes = Buffer.from(digest(null, `secret-id:${id}`), 'latin1').subarray(0, 4)
    return bytes.some((byte) => byte !== 0) ? bytes : Uint8Array.of(0, 0, 0, 1)
  },
} as const satisfies FingerprintVersion & { secretId(id: string): Uint8Array }

/** Byte by byte: creating a view takes longer. */
export function areEqual(one: Uint8Array, other: Uint8Array, from: number, length: number): boolean {
  for (let at = from; at < from + length; at += 1) if (one[at] !== other[at]) return false
  return true
}

const digestLength = 32
const wholePrefix = Buffer.from('v1:')
/** The input of the whole digest. Shared by all requests: written and read synchronously. */
const allDigests = Buffer.concat([wholePrefix, Buffer.alloc(fingerprintParts.length * digestLength)])

function bodyDigest(request: ReceivedRequest, settings: FingerprintSettings, read: ReadBody | undefined): string {
  if (read?.hashed?.by === settings) return read.hashed.digest
  if (!read && isHashed(request, settings)) return request.arrived.digest()
  const pieces = read?.canonical ?? canonicalBody(bodyOf(request), request.mediaType ?? '', settings.exclusions.body)
  if (pieces.length === 1) return digest(settings.secret, pieces[0] as Uint8Array)
  const hash = digesting(settings.secret)
  for (const piece of pieces) hash.update(piece)
  return hash.digest('binary')
}

/** About ten milliseconds on a processor without SHA-256 instructions. */
const hashedPerTurn = 4_000_000

async function hashedInTurns(canonical: CanonicalBody, by: FingerprintSettings): Promise<ReadBody> {
  const hash = digesting(by.secret)
  for (const piece of canonical) {
    for (let at = 0; at < piece.length; at += hashedPerTurn) {
      await new Promise<void>((resolve) => void setImmediate(resolve))
      hash.update(piece.subarray(at, at + hashedPerTurn))
    }
  }
  return { canonical, hashed: { by, digest: hash.digest('binary') } }
}

const bodyOf = ({ body, arrived, value }: ReceivedRequest): BodyOrValue => ({ body: arrived ? arrived.bytes() : body, value })

/** An empty body is no body; a hash with other settings, or of a JSON body, cannot be used. */
function isHashed(request: ReceivedRequest, settings: FingerprintSettings): request is ReceivedRequest & { arrived: ArrivingBody } {
  const { arrived, mediaType = '' } = request
  return arrived !== undefined && arrived.length > 0 && arrived.by === settings && !isUtf8Json(mediaType)
}

/** Limits of the cache. */
const mostKnown = 1_000
const mostKnownOfPath = 8
const longestKnown = 512

/** The digests of all parts but the body. Most are cached from earlier requests: one lookup replaces four digests. */
function digestsInFront(
  { secret, known }: FingerprintSettings,
  method: string,
  path: string,
  query: string,
  mediaType: string,
): Uint8Array {
  const ofPath = known.get(path) ?? none
  for (const each of ofPath) if (each.method === method && each.query === query && each.mediaType === mediaType) return each.digests
  const parts = [method, path, query, mediaType]
  const digests = Buffer.from(parts.map((text, index) => digest(secret, `${fingerprintParts[index]}:${text}`)).join(''), 'latin1')
  if (method.length + path.length + query.length + mediaType.length > longestKnown) return digests
  if (known.size >= mostKnown) known.clear()
  // Drops the oldest: a path may have any number of queries.
  const newest = { method: copyOf(method), query: copyOf(query), mediaType: copyOf(mediaType), digests }
  known.set(copyOf(path), [...ofPath.slice(1 - mostKnownOfPath), newest])
  return digests
}

const none: readonly KnownDigests[] = []

/** A substring, such as one of a header, keeps the whole string in memory. */
const copyOf = (text: string) => Buffer.from(text, 'utf16le').toString('utf16le')
