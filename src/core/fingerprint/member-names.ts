const [quote, backslash, letterU] = [34, 92, 117]

/**
 * Compares two canonical names, given by the position of their opening quotes, by UTF-16 code units. Byte order is the same with two
 * exceptions: U+E000 to U+FFFF come after surrogate pairs, and an escape counts as its character.
 */
export function compareNames(out: Uint8Array, one: number, other: number): number {
  for (let at = 1; ; at += 1) {
    const a = out[one + at] as number
    const b = out[other + at] as number
    if (a !== b) return rank(out, one + at) - rank(out, other + at)
    if (a === quote) return 0
    if (a !== backslash) continue
    at += 1
    if (out[one + at] !== out[other + at]) return escaped(out, one + at) - escaped(out, other + at)
  }
}

/** Rank of the first differing byte. An unescaped quote is the end. */
function rank(out: Uint8Array, at: number): number {
  const byte = out[at] as number
  if (byte === quote) return -1
  if (byte === backslash) return escaped(out, at + 1)
  return byte === 0xee || byte === 0xef ? byte + 16 : byte
}

/** The escaped character: one that stands for itself behind a backslash, or \b, \t, \n, \f, \r, or \u00 and two digits. */
function escaped(out: Uint8Array, at: number): number {
  const byte = out[at] as number
  if (byte === letterU) return 16 * ((out[at + 3] as number) - 48) + Number.parseInt(String.fromCharCode(out[at + 4] as number), 16)
  return shortEscapes.get(byte) ?? byte
}

const shortEscapes: ReadonlyMap<number, number> = new Map(
  [...'\b\t\n\f\r'].map((text, index) => ['btnfr'.charCodeAt(index), text.charCodeAt(0)]),
)

/** Whether the canonical name with its opening quote at `start` equals `quotedName`. */
export function isNamed(out: Uint8Array, start: number, quotedName: Uint8Array): boolean {
  for (let index = 0; index < quotedName.length; index += 1) if (out[start + index] !== quotedName[index]) return false
  return true
}
