import { createSecretKey, type KeyObject } from 'node:crypto'
import { OncekeyError } from './errors.js'

export interface EncryptionOptions {
  /**
   * Keys for AES-256-GCM; the first one seals, all of them open. What a removed key sealed is unreadable: keep each for the longest
   * retention, and while parked or unfinished keys of its time exist.
   */
  keys: readonly EncryptionKey[]
}

export interface EncryptionKey {
  /** Stored in plain text with all that the key sealed: 1 to 64 characters of printable ASCII. */
  readonly id: string
  /** 32 random bytes, or their base64 (44 characters) or hex (64). A password is not a key. */
  readonly key: Uint8Array | string
}

export interface KeyRing {
  /** The key that seals. */
  readonly current: { readonly id: string; readonly key: KeyObject }
  find(id: string): KeyObject | undefined
}

/** How errors name the keys. */
interface Naming {
  readonly option: string
  readonly each: string
  readonly does: string
}

const encryptionKeys: Naming = { option: 'encryption.keys', each: 'encryption key', does: 'seals' }

export function keyRing(options: EncryptionOptions, { option, each: noun, does }: Naming = encryptionKeys): KeyRing {
  const keys: unknown = options?.keys
  if (!Array.isArray(keys) || keys.length === 0) {
    throw new OncekeyError('option_invalid', `${option} is a list of at least one { id, key }; the first one ${does}.`)
  }
  const ring = new Map<string, KeyObject>()
  for (const each of keys as readonly unknown[]) {
    const { id, key } = (each ?? {}) as Partial<EncryptionKey>
    if (typeof id !== 'string' || !printable.test(id)) {
      throw new OncekeyError('option_invalid', `Each ${noun} needs an id of 1 to 64 characters of printable ASCII.`)
    }
    if (ring.has(id)) throw new OncekeyError('option_invalid', `Two ${noun}s share the id ${id}: give each its own.`)
    ring.set(id, createSecretKey(keyBytes(`${noun} ${id}`, key)))
  }
  const [[id, key]] = ring as unknown as [[string, KeyObject]]
  return { current: { id, key }, find: (wanted) => ring.get(wanted) }
}

const printable = /^[\x20-\x7e]{1,64}$/
const hexKey = /^[0-9a-fA-F]{64}$/
/** The last digit before the padding has two spare bits, which must be zero. */
const base64Key = /^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/

/** The error message never contains the key. */
function keyBytes(name: string, key: unknown): Uint8Array {
  if (key instanceof Uint8Array && key.length === 32) return key
  if (typeof key === 'string' && hexKey.test(key)) return Buffer.from(key, 'hex')
  if (typeof key === 'string' && base64Key.test(key)) return Buffer.from(key, 'base64')
  throw new OncekeyError(
    'option_invalid',
    `The ${name} is not 32 bytes: pass a Uint8Array of that length, or what \`openssl rand -base64 32\` or ` +
      '`openssl rand -hex 32` prints.',
  )
}
