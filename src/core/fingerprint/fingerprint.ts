import { OncekeyError } from '../errors.js'
import type { ArrivingBody } from './arriving-body.js'
import { checkPointers, type Exclusions, excludedMembers } from './exclusions.js'
import {
  areEqual,
  type FingerprintPart,
  type FingerprintSettings,
  type FingerprintVersion,
  fingerprintV1,
  type ReadBody,
  type ReceivedRequest,
} from './version-1.js'

export type { FingerprintPart, FingerprintRequest, ReceivedRequest } from './version-1.js'

/** What a request asks for, in a few bytes, to compare with the request that created its key. */
export interface Fingerprint {
  /** The bytes to store: newest version, current secret. */
  readonly bytes: Uint8Array
  /** The first part in which this request differs from a stored fingerprint of any version, or null if they are equal. */
  differenceFrom(stored: Uint8Array): FingerprintPart | null
}

export interface Fingerprinter {
  (request: ReceivedRequest): Fingerprint
  /** Synchronous for most requests; a body that takes over about two milliseconds is left to later turns of the event loop. */
  inTurns(request: ReceivedRequest): Fingerprint | Promise<Fingerprint>
  /** A hash for a body of this media type, updated as it arrives; undefined for JSON, which is compared when complete. */
  arriving(mediaType: string): ArrivingBody | undefined
}

export interface FingerprintSecret {
  /** Stored, hashed to four bytes, in front of each fingerprint, so that it can be compared after a rotation. */
  readonly id: string
  readonly secret: string | Uint8Array
}

export interface FingerprintOptions {
  /**
   * Secrets for HMAC-SHA-256; the first one signs, the others verify what was stored before a rotation. Without any, fingerprints are plain
   * hashes, and anyone who can read the table can test guesses of a body. Default none.
   */
  secrets?: readonly FingerprintSecret[]
  /**
   * Parts that may differ between honest retries. Changing this list makes retries of older keys mismatch. Body members are found only in
   * JSON that is compared by meaning. Default none.
   */
  exclude?: Exclusions
}

/** Every fingerprint starts with version and secret id; the rest depends on the version. */
const headerLength = 5
const noSecretId = new Uint8Array(4)

const knownVersions: ReadonlyMap<number, FingerprintVersion> = new Map([[fingerprintV1.number, fingerprintV1]])

/** Makes the fingerprinter. `versions` is for tests of an upgrade: the last one is current. */
export function createFingerprinter(
  { secrets = [], exclude = {} }: FingerprintOptions = {},
  versions: ReadonlyMap<number, FingerprintVersion> = knownVersions,
): Fingerprinter {
  const exclusions = { body: excludedMembers(checkPointers(exclude.body ?? [])), query: exclude.query ?? [] }
  if (!Array.isArray(exclusions.query)) throw new OncekeyError('option_invalid', 'exclude.query must be an array of parameter names.')
  const settingsBySecret = new Map<string, FingerprintSettings & { readonly id: Uint8Array }>()
  for (const [id, secret] of [[hex(noSecretId), null] as const, ...secretRing(secrets)]) {
    settingsBySecret.set(id, { id: Buffer.from(id, 'hex'), secret, exclusions, known: new Map() })
  }
  const currentSecret = [...settingsBySecret.keys()][secrets.length > 0 ? 1 : 0] as string
  const currentVersion = [...versions.keys()].at(-1) as number

  function compute(request: ReceivedRequest, body: ReadBody | undefined, versionNumber: number, secretId: string): Uint8Array {
    const version = versions.get(versionNumber)
    if (!version) throw incomparable(`version ${versionNumber}, which this release does not know: finish the upgrade of all processes`)
    const settings = settingsBySecret.get(secretId)
    if (!settings) throw incomparable('a secret that is not in `secrets` any more: keep old secrets for as long as the retention')
    const bytes = version.compute(request, settings, headerLength, body)
    bytes[0] = versionNumber
    for (let index = 0; index < settings.id.length; index += 1) bytes[1 + index] = settings.id[index] as number
    return bytes
  }

  const settingsNow = () => settingsBySecret.get(currentSecret) as FingerprintSettings
  const versionNow = () => versions.get(currentVersion) as FingerprintVersion
  const arriving = (mediaType: string) => versionNow().arriving?.(mediaType, settingsNow())

  function difference({ bytes, request, body }: Taken, stored: Uint8Array): FingerprintPart | null {
    // Usually version and secret are the same.
    const isAlike = areEqual(bytes, stored, 0, headerLength)
    const number = stored[0] ?? 0
    // Another version may canonicalise differently.
    const known = number === currentVersion ? body : undefined
    const own = isAlike ? bytes : compute(request, known, number, hex(stored.subarray(1, headerLength)))
    const version = versions.get(own[0] as number) as FingerprintVersion
    return version.difference(own, stored, headerLength)
  }

  const take = (request: ReceivedRequest, body?: ReadBody) => compute(request, body, currentVersion, currentSecret)
  const takeFingerprint = (request: ReceivedRequest) => new TakenFingerprint({ bytes: take(request), request }, difference)

  function inTurns(request: ReceivedRequest): Fingerprint | Promise<Fingerprint> {
    const body = versionNow().readBody?.(request, settingsNow())
    // Not `instanceof`: some applications replace the global Promise.
    if (!body || !('then' in body)) return new TakenFingerprint({ bytes: take(request, body), request }, difference)
    return body.then((later) => new TakenFingerprint({ bytes: take(request, later), request, body: later }, difference))
  }
  return Object.assign(takeFingerprint, { inTurns, arriving })
}

/** The request, in case the stored fingerprint is of another version or secret than `bytes`. */
interface Taken {
  readonly bytes: Uint8Array
  readonly request: ReceivedRequest
  /** If it took several turns. */
  readonly body?: ReadBody
}

class TakenFingerprint implements Fingerprint {
  readonly bytes: Uint8Array
  readonly #taken: Taken
  readonly #difference: (taken: Taken, stored: Uint8Array) => FingerprintPart | null

  constructor(taken: Taken, difference: (taken: Taken, stored: Uint8Array) => FingerprintPart | null) {
    this.bytes = taken.bytes
    this.#taken = taken
    this.#difference = difference
  }

  differenceFrom(stored: Uint8Array): FingerprintPart | null {
    return this.#difference(this.#taken, stored)
  }
}

function secretRing(secrets: readonly FingerprintSecret[]): Map<string, Uint8Array> {
  const ring = new Map<string, Uint8Array>()
  for (const { id, secret } of secrets) {
    const bytes = typeof secret === 'string' ? new TextEncoder().encode(secret) : secret
    if (typeof id !== 'string' || id === '' || !(bytes instanceof Uint8Array) || bytes.length < 16) {
      throw new OncekeyError('option_invalid', 'Each fingerprint secret needs an id and at least 16 bytes of secret.')
    }
    const shortId = hex(fingerprintV1.secretId(id))
    if (ring.has(shortId)) throw new OncekeyError('option_invalid', `Two fingerprint secrets share the id ${id}: give each its own.`)
    ring.set(shortId, bytes)
  }
  return ring
}

function incomparable(reason: string): OncekeyError {
  return new OncekeyError('fingerprint_incomparable', `The stored fingerprint was made with ${reason}.`)
}

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
