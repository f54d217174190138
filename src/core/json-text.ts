import type { OncekeyError } from './errors.js'

/** The JSON of a value. Throws what `refuse` makes of the cause if there is none: a BigInt, a cycle, a function, a symbol. */
export function jsonText(
  value: unknown,
  refuse: (cause: unknown) => OncekeyError,
  replacer?: (this: Record<string, unknown>, name: string, value: unknown) => unknown,
): string {
  let cause: unknown
  try {
    const text: string | undefined = JSON.stringify(value, replacer)
    if (text !== undefined) return text
  } catch (error) {
    cause = error
  }
  throw refuse(cause)
}

/** The same JSON in ASCII, which every database encoding can hold. */
export function inAscii(json: string): string {
  return json.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/**
 * The value of a text that `inAscii()` wrote. Its characters are put back first, because V8 (Node 24, 26) takes a name with an escape for one that
 * ends with a backslash, once it has parsed that one: after `{"a":1,"\\":1}`, `{"a":1,"\u540d":1}` has a member named backslash.
 */
export function parsedAscii(json: string): unknown {
  return JSON.parse(json.includes('\\u') ? json.replace(anyEscape, unescaped) : json)
}

/** Each escape as a whole, so that an escaped backslash is not taken for the beginning of one. */
const anyEscape = /\\(?:u([\da-f]{4})|.)/gi

function unescaped(written: string, hex: string | undefined): string {
  const unit = hex === undefined ? 0 : Number.parseInt(hex, 16)
  return unit > 0x7f ? String.fromCharCode(unit) : written
}
