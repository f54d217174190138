const [backslash, letterU] = [92, 117]

const escapes = new Int32Array(256).fill(-1)
for (const [letter, text] of Object.entries({ b: '\b', t: '\t', n: '\n', f: '\f', r: '\r', '"': '"', '\\': '\\', '/': '/' })) {
  escapes[letter.charCodeAt(0)] = text.charCodeAt(0)
}
const hexDigits = new Int32Array(256).fill(-1)
for (let digit = 0; digit < 16; digit += 1) {
  hexDigits[digit.toString(16).charCodeAt(0)] = digit
  hexDigits[digit.toString(16).toUpperCase().charCodeAt(0)] = digit
}

/** The code point of the JSON escape at `at`, or of a surrogate pair of escapes; -1 if it is invalid. */
export function codePointAt(bytes: Uint8Array, at: number): number {
  if (at + 1 >= bytes.length) return -1
  if (bytes[at + 1] !== letterU) return escapes[bytes[at + 1] as number] as number
  const unit = unitAt(bytes, at)
  if (unit < 0xd800 || unit > 0xdbff) return unit
  const low = unitAt(bytes, at + 6)
  return low >= 0xdc00 && low <= 0xdfff ? 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00) : unit
}

function unitAt(bytes: Uint8Array, at: number): number {
  if (at + 6 > bytes.length || bytes[at] !== backslash || bytes[at + 1] !== letterU) return -1
  const [a, b] = [hexDigits[bytes[at + 2] as number] as number, hexDigits[bytes[at + 3] as number] as number]
  const [c, d] = [hexDigits[bytes[at + 4] as number] as number, hexDigits[bytes[at + 5] as number] as number]
  return (a | b | c | d) < 0 ? -1 : (a << 12) | (b << 8) | (c << 4) | d
}

/** In canonical JSON: escaped where required, else UTF-8. Half a surrogate pair becomes three invalid bytes. */
export function writeCodePoint(out: Uint8Array, to: number, codePoint: number): number {
  let at = to
  const put = (byte: number) => {
    out[at++] = byte
  }
  if (codePoint < 0x80) {
    const spelled = spellings[codePoint] as Uint8Array
    for (let index = 0; index < spelled.length; index += 1) put(spelled[index] as number)
  } else if (codePoint < 0x800) {
    put(0xc0 | (codePoint >> 6))
    put(0x80 | (codePoint & 63))
  } else {
    if (codePoint < 0x10000) put(0xe0 | (codePoint >> 12))
    else {
      put(0xf0 | (codePoint >> 18))
      put(0x80 | ((codePoint >> 12) & 63))
    }
    put(0x80 | ((codePoint >> 6) & 63))
    put(0x80 | (codePoint & 63))
  }
  return at
}

/** The JSON spelling of each ASCII character. */
const spellings = Array.from({ length: 0x80 }, (_, code) => Buffer.from(JSON.stringify(String.fromCharCode(code)).slice(1, -1)))
