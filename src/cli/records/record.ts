import { isDeepStrictEqual } from 'node:util'
import { hasCanonicalJson } from '../../core/fingerprint/canonical-body.js'
import type { ReconcileKey } from '../../reconcile/key-order.js'
import { wrongUsage } from '../exit-codes.js'

/** One record of either side. */
export interface DataRecord {
  readonly value: Readonly<Record<string, unknown>>
  /** Its original JSON. */
  readonly text: string
  /** For errors: `line 7 of charges.ndjson`. */
  readonly where: string
}

/** The name of a field on both sides: `amount`, or `amount=amount_cents`; nested members with dots. */
export interface FieldPair {
  /** As given: two may have the same local name. */
  readonly name: string
  readonly local: readonly string[]
  readonly foreign: readonly string[]
}

export function fieldPair(text: string): FieldPair {
  const [local = '', foreign = local, ...others] = text.split('=').map((name) => name.trim())
  if (local === '' || foreign === '' || others.length > 0) throw wrongUsage(`'${text}' is not a field: write name, or ours=theirs.`)
  return { name: text.trim(), local: local.split('.'), foreign: foreign.split('.') }
}

export function recordOf(text: string, where: string): DataRecord {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw wrongUsage(`${where} is not JSON: there has to be one object on each line.`)
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw wrongUsage(`${where} is not a JSON object.`)
  if (!hasCanonicalJson(text)) {
    throw wrongUsage(
      `${where} has a number with too many digits to be compared, a member twice, or half a surrogate pair: write such numbers as ` +
        'texts (id::text).',
    )
  }
  return { value: value as Record<string, unknown>, text, where }
}

export function valueAt({ value }: DataRecord, path: readonly string[]): unknown {
  return path.reduce<unknown>((at, name) => (isObject(at) && Object.hasOwn(at, name) ? at[name] : undefined), value)
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null

export function keyAt(record: DataRecord, path: readonly string[]): ReconcileKey {
  const key = valueAt(record, path)
  if (typeof key === 'string' || typeof key === 'number') return key
  throw wrongUsage(`${record.where} has no ${path.join('.')} that is a text or a number: --key names what both sides are sorted by.`)
}

/** Texts and numbers are equal if they read the same, and a missing value equals null: the two sides write as they like. */
export function agree(one: unknown, other: unknown): boolean {
  const [left, right] = [one ?? null, other ?? null]
  if (left === null || right === null || isObject(left) || isObject(right)) return isDeepStrictEqual(left, right)
  return String(left) === String(right)
}

/** Seconds since the epoch have ten digits today, milliseconds thirteen. */
const secondsBelow = 100_000_000_000

const isoMoment = /^(\d{4}-\d\d-\d\d)[T ]([\d:.]+)(?:(Z)|([+-]\d\d):?(\d\d)?)?$/i

/** A time in milliseconds since the epoch. A text without a time zone is UTC. */
export function momentAt(record: DataRecord, path: readonly string[]): number {
  const value = valueAt(record, path)
  if (typeof value === 'number') return value < secondsBelow ? value * 1_000 : value
  const [, day, time, , hours = '+00', minutes = '00'] = (typeof value === 'string' && isoMoment.exec(value.trim())) || []
  const ms = Date.parse(`${day}T${time}${hours}:${minutes}`)
  if (!Number.isNaN(ms)) return ms
  throw wrongUsage(`${record.where} has no ${path.join('.')} that is a moment: ISO 8601, or seconds or milliseconds since the epoch.`)
}
