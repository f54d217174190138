import { OncekeyError } from '../errors.js'
import { checkPointers, type Exclusions } from './exclusions.js'
import { type FingerprintPart, type FingerprintRequest, type FingerprintVersion, fingerprintV1 } from './version-1.js'

export type { FingerprintPart, FingerprintRequest } from './version-1.js'

/** What a request asked for, in a few bytes, ready to be compared with what its key was first used for. */
export interface Fingerprint {
  /** To be stored with the key: the newest version, under the current secret. */
  readonly bytes: Uint8Array
  /** The first part in which this request differs from a stored fingerprint of any version, or null if they are equal. */
  differenceFrom(stored: Uint8Array): FingerprintPart | null
}

export interface FingerprintSecret {
  /** Kept, hashed to four bytes, in front of each fingerprint, so that it can be compared after a rotation. */
  readonly id: string
  readonly secret: string | Uint8Array
}

export interface FingerprintOptions {
  /**
   * Secrets for HMAC-SHA-256; the first one signs, the others are for comparing what was stored before a rotation. Without
   * any, fingerprints are plain hashes, and somebody who reads the table can test guesses of what a body said. Default none.
   */
  secrets?: readonly FingerprintSecret[]
  /** Parts that may differ between honest retries. A change of this list makes retries of older keys mismatch, and body members are only
   * found in JSON that is compared by its meaning. Default none. */
  exclude?: Exclusions
}

/** A header of version and secret id leads every fingerprint; what follows is the version's own. */
const headerLength = 5
const noSecretId = new Uint8Array(4)

const knownVersions: ReadonlyMap<number, FingerprintVersion> = new Map([[fingerprintV1.number, fingerprintV1]])

/** Makes the function that takes requests' fingerprints. `versions` is for tests of an upgrade: the last one is current. */
export function createFingerprinter(
  { secrets = [], exclude = {} }: FingerprintOptions = {},
  versions: ReadonlyMap<number, FingerprintVersion> = knownVersions,
): (request: FingerprintRequest) => Fingerprint {
  const exclusions = { body: checkPointers(exclude.body ?? []), query: exclude.query ?? [] }
  if (!Array.isArray(exclusions.query)) throw new OncekeyError('option_invalid', 'exclude.query is a list of parameter names.')
  const ring = secretRing(secrets)
  const currentSecret = secrets.length > 0 ? (ring.keys().next().value as string) : hex(noSecretId)
  const currentVersion = [...versions.keys()].at(-1) as number

  function compute(request: FingerprintRequest, versionNumber: number, secretId: string): Uint8Array {
    const version = versions.get(versionNumber)
    if (!version) throw incomparable(`version ${versionNumber}, which this release does not know: finish the upgrade of all processes`)
    const secret = secretId === hex(noSecretId) ? null : ring.get(secretId)
    if (secret === undefined)
      throw incomparable('a secret that is not in `secrets` any more: keep old secrets for as long as the retention')
    const body = version.compute(request, { secret, exclusions })
    return Uint8Array.of(versionNumber, ...Buffer.from(secretId, 'hex'), ...body)
  }

  return function takeFingerprint(request) {
    const bytes = compute(request, currentVersion, currentSecret)
    return {
      bytes,
      differenceFrom(stored) {
        const versionNumber = stored[0] ?? 0
        const secretId = hex(stored.subarray(1, headerLength))
        const same = versionNumber === currentVersion && secretId === currentSecret
        const own = same ? bytes : compute(request, versionNumber, secretId)
        const version = versions.get(versionNumber) as FingerprintVersion
        return version.difference(own.subarray(headerLength), stored.subarray(headerLength))
      },
    }
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
