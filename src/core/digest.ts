import * as crypto from 'node:crypto'

const { createHash, createHmac } = crypto

/** Node 20.12 and later hash in one call, without creating an object. */
const hashAtOnce = (crypto as { hash?: (algorithm: string, data: string | Uint8Array, encoding: 'latin1' | 'hex') => string }).hash

/**
 * SHA-256, or HMAC-SHA-256 with a secret, as text with one character per byte: allocating a buffer for 32 bytes would take longer
 * than the hash. Text is digested as UTF-8.
 */
export function digest(secret: Uint8Array | null, data: string | Uint8Array): string {
  return secret === null && hashAtOnce ? hashAtOnce('sha256', data, 'latin1') : digesting(secret).update(data).digest('binary')
}

/** SHA-256 in hexadecimal. */
export function hexDigest(text: string): string {
  return hashAtOnce ? hashAtOnce('sha256', text, 'hex') : createHash('sha256').update(text).digest('hex')
}

/** The same for data in pieces. */
export function digesting(secret: Uint8Array | null): crypto.Hash | crypto.Hmac {
  return secret === null ? createHash('sha256') : createHmac('sha256', secret)
}
