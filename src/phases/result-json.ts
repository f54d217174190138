import { OncekeyError } from '../core/errors.js'
import type { Json } from '../core/json.js'
import { inAscii, jsonText, parsedAscii } from '../core/json-text.js'
import { thrownText } from '../core/thrown-text.js'

/**
 * The JSON of a step's result, or null for nothing. Whatever would come back as something else than `Json<T>` says is refused: a
 * first run and a resumed one must see the same value, and the compiler must know which. It is ASCII, which every database can hold.
 */
export function resultJson(name: string, value: unknown): string | null {
  if (value === undefined) return null
  const notJson = (cause: unknown) =>
    new OncekeyError(
      'result_not_json',
      `The result of ${name} is not JSON${cause === undefined ? '' : ` (${thrownText(cause)})`}: return plain objects, arrays, texts, ` +
        'finite numbers, booleans, null, or nothing.',
      { cause },
    )
  return inAscii(jsonText(value, notJson, refuseWhatJsonWouldChange))
}

/** The value that a result comes back as, on the first run too. */
export function fromResultJson<T>(text: string | null): Json<T> {
  return (text === null ? undefined : parsedAscii(text)) as Json<T>
}

function refuseWhatJsonWouldChange(this: Record<string, unknown>, name: string, value: unknown): unknown {
  const before = this[name]
  if (before instanceof Date && Number.isNaN(before.getTime())) throw new TypeError('an invalid Date would become null')
  if (typeof value === 'number' && !Number.isFinite(value)) throw new TypeError(`${value} would become null`)
  if (value instanceof Map || value instanceof Set) throw new TypeError(`a ${value.constructor.name} would become {}`)
  return value
}
