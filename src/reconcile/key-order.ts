import { OncekeyError } from '../core/errors.js'

export type ReconcileKey = string | number | bigint

/** Negative if the first comes first, positive if the second does, 0 if they are the same key. */
export type CompareKeys<Key> = (one: Key, other: Key) => number

/**
 * How both streams are sorted. `'bytes'`: texts by their UTF-8 bytes, as `collate "C"` of Postgres and `LC_ALL=C sort` do. `'code-units'`:
 * texts as JavaScript compares them, which differs for characters past U+FFFF, such as emoji. Numbers ascend in both.
 */
export type KeyOrder<Key> = 'bytes' | 'code-units' | CompareKeys<Key>

export function keyOrder<Key extends ReconcileKey>(order: KeyOrder<Key>): CompareKeys<Key> {
  if (typeof order === 'function') return checked(order)
  if (order === 'bytes') return byValue(byUtf8Bytes) as CompareKeys<ReconcileKey>
  if (order === 'code-units') return byValue(byCodeUnits) as CompareKeys<ReconcileKey>
  throw new OncekeyError(
    'option_invalid',
    `order is ${String(order)}: it must be 'bytes', 'code-units' or a function that compares two keys.`,
  )
}

/** A comparison that returns NaN or undefined would make all keys equal. */
function checked<Key extends ReconcileKey>(order: CompareKeys<Key>): CompareKeys<Key> {
  return (one, other) => {
    const result: unknown = order(one, other)
    if (typeof result === 'number' && !Number.isNaN(result)) return result
    throw new OncekeyError(
      'option_invalid',
      `order returned ${String(result)} for ${shownKey(one)} and ${shownKey(other)}: it must return a number.`,
    )
  }
}

function byValue(byText: CompareKeys<string>): CompareKeys<ReconcileKey> {
  return (one, other) => {
    if (typeof one === 'string' && typeof other === 'string') return byText(one, other)
    if (typeof one === 'string' || typeof other === 'string') {
      throw new OncekeyError(
        'reconcile_key_invalid',
        `${shownKey(one)} and ${shownKey(other)} are a text and a number: make all keys of both sides one of them, ` +
          'such as (row) => BigInt(row.id) for numbers that come as texts.',
      )
    }
    // Exact between numbers and bigints too.
    return one < other ? -1 : one > other ? 1 : 0
  }
}

const byCodeUnits: CompareKeys<string> = (one, other) => (one < other ? -1 : one > other ? 1 : 0)

/**
 * The order of UTF-8 bytes is that of code points. UTF-16 differs in one place: code points past U+FFFF are written with surrogates, which
 * sort below U+E000 to U+FFFF.
 */
const byUtf8Bytes: CompareKeys<string> = (one, other) => {
  if (one === other) return 0
  const length = Math.min(one.length, other.length)
  for (let at = 0; at < length; at += 1) {
    const left = one.charCodeAt(at)
    const right = other.charCodeAt(at)
    if (left !== right) return rank(left) - rank(right)
  }
  return one.length - other.length
}

const rank = (unit: number) => (unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit)

/** A key for an error message. */
export function shownKey(key: unknown): string {
  const text = typeof key === 'string' ? JSON.stringify(key) : String(key)
  return text.length <= 100 ? text : `${text.slice(0, 99)}…`
}
