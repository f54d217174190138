import { hexDigest } from './digest.js'
import { type ErrorCode, OncekeyError } from './errors.js'

/** Whose key, for what, and which. Two requests mean the same work only if all three are equal, byte for byte. */
export interface KeyRef {
  /** Whose key it is. Keys of two tenants never meet. */
  readonly tenant: string
  /** The operation or endpoint that the key is used with. */
  readonly scope: string
  /** What the client sent. */
  readonly key: string
}

/** The published cap on a key's length; it is Stripe's too. */
export const maxKeyLength = 255

/** Tenant and scope are the service's own words; the cap keeps the primary key within what an index can hold. */
export const maxNameLength = 255

/** Refuses what no store could keep apart or keep at all. Returns only the three parts, whatever else came along. */
export function checkKeyRef(ref: KeyRef): KeyRef {
  check('tenant_invalid', 'tenant', ref.tenant, maxNameLength)
  check('scope_invalid', 'scope', ref.scope, maxNameLength)
  check('key_invalid', 'key', ref.key, maxKeyLength)
  return { tenant: ref.tenant, scope: ref.scope, key: ref.key }
}

export function checkTenant(tenant: string): string {
  return checkName('tenant_invalid', 'tenant', tenant)
}

/** The name of a step or operation: kept like a scope, and read by people. */
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
  // A driver would send U+FFFD for every lone surrogate, and different keys would become one.
  if (loneSurrogate.test(value)) return 'contains a lone surrogate, which has no UTF-8 form'
  return null
}

/** With the `u` flag a surrogate only matches where it is not half of a pair. */
const loneSurrogate = /[\uD800-\uDFFF]/u

/**
 * The row's id: 122 bits of SHA-256 over the three parts, in the form of a version 8 UUID. The lengths in front make the
 * hashed text unambiguous. Stores keep the three parts too and compare them, so a collision would be an error, not a mix-up.
 */
export function keyId({ tenant, scope, key }: KeyRef): string {
  return uuidOf(`${tenant.length}:${scope.length}:${tenant}${scope}${key}`)
}

/** Whether a text could be the id of a key at all. Ids come back from clients, in addresses. */
export function isKeyId(text: unknown): text is string {
  return typeof text === 'string' && /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(text)
}

/** Whether a text is a UUID at all, whatever made it. */
export function isUuid(text: unknown): text is string {
  return typeof text === 'string' && /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/i.test(text)
}

/**
 * The key for a downstream call: the same for every attempt at this life of the key, another one after expiry and reuse, and nothing
 * that the caller's key could be read from.
 */
export function derivedKey(incarnation: string, name: string): string {
  return uuidOf(`derived:${incarnation}:${name}`)
}

/** 122 bits of SHA-256 in the form of a version 8 UUID. */
function uuidOf(text: string): string {
  const hex = hexDigest(text)
  // The two bits of the variant, in front of two of the digest's.
  const variant = ((Number.parseInt(hex[16] as string, 16) & 0x3) | 0x8).toString(16)
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}
