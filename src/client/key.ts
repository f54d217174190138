import { IdempotentFetchError } from './client-error.js'

/** A random UUID. Pages without HTTPS and React Native have no `randomUUID`: there it is made of random bytes. */
export function newKey(): string {
  const source = globalThis.crypto as Partial<typeof globalThis.crypto> | undefined
  if (source?.randomUUID) return source.randomUUID()
  if (!source?.getRandomValues) {
    throw new IdempotentFetchError('option_invalid', 'No crypto.getRandomValues: load react-native-get-random-values.')
  }
  const bytes = source.getRandomValues(new Uint8Array(16))
  // Version 4, variant 1: RFC 9562.
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x40
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80
  const digits = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

/** What the header says, without the quotes and escapes of a structured field. */
export function keyOf(header: string): string {
  const [, quoted] = /^"((?:[^"\\]|\\.)*)"/.exec(header) ?? []
  return quoted === undefined ? header : quoted.replaceAll(/\\(.)/g, '$1')
}
