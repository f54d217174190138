/**
 * Does `JSON.parse` keep everything that this text says?
 *
 * It does not when an object names a member twice (the last one wins) or when a number has no exact double
 * (9007199254740993 becomes …992): two texts that differ would come out equal. The text must be valid JSON, and `value` what was
 * parsed from it; nesting deeper than `maxDepth` counts as unfaithful, because canonicalisation is recursive.
 */
export function isFaithfulJson(text: string, value: unknown = JSON.parse(text), maxDepth = 256): boolean {
  const members = membersIfExact(text, maxDepth)
  // A member that was named twice, in whatever spelling, is there once.
  return members !== undefined && members === memberCount(value)
}

/** How many members the text names, in all its objects; undefined if a number is not exact, or if it is nested too deep. */
function membersIfExact(text: string, maxDepth: number): number | undefined {
  let members = 0
  let depth = 0
  for (let at = 0; at < text.length; at += 1) {
    switch (text.charCodeAt(at)) {
      case quote:
        at = endOfString(text, at)
        break
      case colon:
        members += 1
        break
      case openBrace:
      case openBracket:
        depth += 1
        if (depth > maxDepth) return undefined
        break
      case closeBrace:
      case closeBracket:
        depth -= 1
        break
      default:
        if (isNumberCharacter(text.charCodeAt(at))) {
          const end = endOfNumber(text, at)
          if (!isExact(text, at, end)) return undefined
          at = end - 1
        }
    }
  }
  return members
}

const [quote, colon, openBrace, closeBrace, openBracket, closeBracket, backslash] = [34, 58, 123, 125, 91, 93, 92]
const [plus, minus, dot, zero, nine, upperE, lowerE] = [43, 45, 46, 48, 57, 69, 101]

/** Where the quote stands that ends the string which begins at `start`: the first one with no odd number of backslashes before it. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); ; end = text.indexOf('"', end + 1)) {
    let before = end - 1
    while (text.charCodeAt(before) === backslash) before -= 1
    if ((end - before) % 2 === 1) return end
  }
}

/** Outside of strings only numbers are made of digits and minus signs, and `true`, `false` and `null` begin with neither. */
function isNumberCharacter(code: number): boolean {
  return (code >= zero && code <= nine) || code === minus
}

function endOfNumber(text: string, start: number): number {
  for (let end = start + 1; ; end += 1) {
    const code = text.charCodeAt(end)
    if (!isNumberCharacter(code) && code !== dot && code !== plus && code !== lowerE && code !== upperE) return end
  }
}

/** Decimals of up to 15 digits all survive the way through a double. */
const alwaysExact = 15

/** No double needs more characters than this in plain notation; longer ones are not worth looking at. */
const longestNumber = 400

function isExact(text: string, start: number, end: number): boolean {
  const length = end - start
  if (length > longestNumber) return false
  const token = text.slice(start, end)
  if (length <= alwaysExact && !/e/i.test(token)) return true
  const value = Number(token)
  return Number.isFinite(value) && decimal(token) === decimal(String(value))
}

/** One spelling for each decimal number: sign, digits without outer zeros, power of ten. */
function decimal(token: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?$/.exec(token) ?? []
  const digits = (whole + fraction).replace(/^0+/, '')
  const trimmed = digits.replace(/0+$/, '')
  if (trimmed === '') return '0'
  return `${sign}${trimmed}e${Number(exponent) - fraction.length + digits.length - trimmed.length}`
}

/** Recursive: the text was seen not to be nested too deep. */
function memberCount(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  let count = 0
  if (Array.isArray(value)) {
    for (const element of value) count += memberCount(element)
    return count
  }
  for (const name of Object.keys(value)) count += 1 + memberCount((value as Record<string, unknown>)[name])
  return count
}
