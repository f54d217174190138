const [plus, minus, dot, zero, nine, letterE] = [43, 45, 46, 48, 57, 101]

/** Decimals of up to 15 digits survive conversion to a double. */
const alwaysExact = 15

/** No double needs more characters than this in plain notation; longer numbers are refused. */
const longestNumber = 400

/** The end of a number that is exact and canonical as written; -1 for any other, and for no number. */
export function endOfUsualNumber(bytes: Uint8Array, start: number): number {
  const whole = bytes[start] === minus ? start + 1 : start
  const point = endOfWhole(bytes, whole)
  const isLessThanOne = bytes[whole] === zero
  let end = point
  if (point > 0 && bytes[point] === dot) {
    end = endOfDigits(bytes, point + 1)
    // Trailing zeros are not canonical, and numbers below a millionth need an exponent.
    if (bytes[end - 1] === zero || end === point + 1 || (isLessThanOne && end - point > 6)) return -1
  } else if (isLessThanOne && whole > start) return -1
  return end - start > alwaysExact || isLetterE(bytes[end]) ? -1 : end
}

/** The end of the number that starts here; -1 if there is none. */
export function endOfNumber(bytes: Uint8Array, start: number): number {
  let end = endOfWhole(bytes, bytes[start] === minus ? start + 1 : start)
  if (end > 0 && bytes[end] === dot) end = endOfSome(bytes, end + 1)
  if (end < 0 || !isLetterE(bytes[end])) return end
  return endOfSome(bytes, bytes[end + 1] === plus || bytes[end + 1] === minus ? end + 2 : end + 1)
}

/** One digit or more, without leading zeros. */
function endOfWhole(bytes: Uint8Array, start: number): number {
  const end = endOfSome(bytes, start)
  return bytes[start] === zero && end > start + 1 ? -1 : end
}

function endOfSome(bytes: Uint8Array, start: number): number {
  const end = endOfDigits(bytes, start)
  return end > start ? end : -1
}

function endOfDigits(bytes: Uint8Array, start: number): number {
  let at = start
  while (at < bytes.length && (bytes[at] as number) >= zero && (bytes[at] as number) <= nine) at += 1
  return at
}

const isLetterE = (byte: number | undefined) => byte !== undefined && (byte | 32) === letterE

/** The number as `JSON.stringify` writes it; null if no double equals it. */
export function canonicalNumber(bytes: Uint8Array, start: number, end: number): string | null {
  if (end - start > longestNumber) return null
  let token = ''
  for (let at = start; at < end; at += 1) token += String.fromCharCode(bytes[at] as number)
  const value = Number(token)
  const text = String(value)
  const isExact = text === token || (token.length <= alwaysExact && !/e/i.test(token))
  return isExact || (Number.isFinite(value) && decimal(token) === decimal(text)) ? text : null
}

/** A unique spelling of each decimal number: sign, digits without outer zeros, power of ten. */
function decimal(token: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?$/.exec(token) ?? []
  const digits = (whole + fraction).replace(/^0+/, '')
  const trimmed = digits.replace(/0+$/, '')
  if (trimmed === '') return '0'
  return `${sign}${trimmed}e${Number(exponent) - fraction.length + digits.length - trimmed.length}`
}
