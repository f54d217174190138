import { hexDigest } from './digest.js'
import { type ErrorCode, OncekeyError } from './errors.js'

/** Identifies a key. Two requests mean the same work only if all three parts are equal, byte for byte. */
export interface KeyRef {
  /** Whose key it is. Keys of two tenants never meet. */
  readonly tenant: string
  /** The operation or endpoint that the key is used with. */
  readonly scope: string
  /** What the client sent. */
  readonly key: string
}

/** The published maximum length of a key; the same as Stripe's. */
export const maxKeyLength = 255

/** Keeps the primary key within the limit of an index. */
export const maxNameLength = 255

/** Throws for a key that stores could not hold or keep apart. Returns only the three parts. */
export function checkKeyRef(ref: KeyRef): KeyRef {
  check('tenant_invalid', 'tenant', ref.tenant, maxNameLength)
  check('scope_invalid', 'scope', ref.scope, maxNameLength)
  check('key_invalid', 'key', ref.key, maxKeyLength)
  return { tenant: ref.tenant, scope: ref.scope, key: ref.key }
}

export function checkTenant(tenant: string): string {
  return checkName('tenant_invalid', 'tenant', tenant)
}

/** Checks the name of a step or operation, as a scope is checked. */
export function checkName(code: ErrorCode, what: string, name: string): string {
  check(code, what, name, maxNameLength)
  return name
}

function check(code: ErrorCode, name: string, value: unknown, maxLength: number): void {
  const problem = problemOf(value, maxLength)
  if (!problem) return
  throw new OncekeyError(code, `The ${name} ${problem}. Use a text of 1 to ${maxLength} characters of well-formed Unicode without NUL.`)
}

function problemOf(value: unknown, maxLength: number): string | null {
  if (typeof value !== 'string') return `is ${value === null ? 'null' : `of type ${typeof value}`}, not a text`
  if (value.length === 0) return 'is empty'
  if (value.length > maxLength) return `has ${value.length} characters`
  if (value.includes('\0')) return 'contains a NUL character, which Postgres cannot store'
  // Drivers send U+FFFD for every lone surrogate, so different keys would become one.
  if (loneSurrogate.test(value)) return 'contains a lone surrogate, which has no UTF-8 form'
  return null
}

/** With the `u` flag a surrogate only matches where it is not half of a pair. */
const loneSurrogate = /[\uD800-\uDFFF]/u

/**
 * The row's id: 122 bits of SHA-256 over the three parts, as a version 8 UUID. The lengths in front make the hashed text unambiguous.
 * Stores also compare the three parts, so a collision is an error, not a mix-up.
 */
export function keyId({ tenant, scope, key }: KeyRef): string {
  return uuidOf(`${tenant.length}:${scope.length}:${tenant}${scope}${key}`)
}

/** Whether a text may be the id of a key. Clients send ids back, in URLs. */
export function isKeyId(text: unknown): text is string {
  return typeof text === 'string' && /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(text)
}

/** Whether a text is a UUID of any version. */
export function isUuid(text: unknown): text is string {
  return typeof text === 'string' && /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/i.test(text)
}

/**
 * The key for a downstream call: the same for every attempt at this life of the key, different after expiry and reuse. It does not reveal
 * the caller's key.
 */
export function derivedKey(incarnation: string, name: string): string {
  return uuidOf(`derived:${incarnation}:${name}`)
}

/** 122 bits of SHA-256 as a version 8 UUID. */
function uuidOf(text: string): string {
  const hex = hexDigest(text)
  // The two variant bits, then two bits of the digest.
  const variant = ((Number.parseInt(hex[16] as string, 16) & 0x3) | 0x8).toString(16)
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}
