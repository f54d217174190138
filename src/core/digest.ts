import * as crypto from 'node:crypto'

const { createHash, createHmac } = crypto

/** From Node 20.12 on there is a hash in one call, without an object for each. */
const hashAtOnce = (crypto as { hash?: (algorithm: string, data: string | Uint8Array, encoding: 'latin1' | 'hex') => string }).hash

/**
 * SHA-256, or HMAC-SHA-256 with a secret, as a text with a character for each byte: a buffer of its own for 32 bytes would take longer
 * than the hash. Of a text, its UTF-8 is digested.
 */
export function digest(secret: Uint8Array | null, data: string | Uint8Array): string {
  return secret === null && hashAtOnce ? hashAtOnce('sha256', data, 'latin1') : digesting(secret).update(data).digest('binary')
}

/** SHA-256 in hexadecimal digits. */
export function hexDigest(text: string): string {
  return hashAtOnce ? hashAtOnce('sha256', text, 'hex') : createHash('sha256').update(text).digest('hex')
}

/** The same for what comes in pieces. */
export function digesting(secret: Uint8Array | null): crypto.Hash | crypto.Hmac {
  return secret === null ? createHash('sha256') : createHmac('sha256', secret)
}
