import type { OncekeyError } from './errors.js'

/** The JSON of a value, or the error that `refuse` makes of the reason why there is none: a BigInt, a cycle, a function, a symbol. */
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

/** The same JSON, of characters that the encoding of any database has. */
export function inAscii(json: string): string {
  return json.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
