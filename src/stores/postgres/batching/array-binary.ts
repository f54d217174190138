import type { Element } from './array-literal.js'

/** The numbers by which Postgres knows the types, the same in every database of every version. */
const typeNumbers: Readonly<Record<string, number>> = { text: 25, smallint: 21, integer: 23, float8: 701, uuid: 2_950 }

/** Without elements there are no dimensions, and nothing of what is said of them. */
const emptyBytes = 12
const headBytes = 20

/**
 * Arrays in the protocol's binary format, which the server copies where it would have to read texts. Only for drivers that pass bytes on as
 * they are, and say that they are no text.
 *
 * The format: the number of dimensions, whether there are nulls, the type, the number of elements, the first index; then of each element its
 * size (-1: null) and its bytes. Numbers are big-endian.
 */
export function binaryArray<Item>(type: string, items: readonly Item[], of: (item: Item) => Element): Uint8Array {
  const elements: Element[] = new Array(items.length)
  let nulls = 0
  let room = headBytes
  for (let index = 0; index < items.length; index += 1) {
    const element = of(items[index] as Item)
    elements[index] = element
    if (element === null) nulls += 1
    // No unit of UTF-16 takes more than three bytes of UTF-8.
    room += 4 + (typeof element === 'string' ? 3 * element.length : 8)
  }
  const bytes = Buffer.allocUnsafe(room)
  // Where other arrays of a statement are longer, Postgres goes on with nulls: it need not be sent any.
  const isEmpty = nulls === elements.length
  bytes.writeInt32BE(isEmpty ? 0 : 1, 0)
  bytes.writeInt32BE(nulls > 0 ? 1 : 0, 4)
  bytes.writeInt32BE(typeNumbers[type] as number, 8)
  if (isEmpty) return bytes.subarray(0, emptyBytes)
  bytes.writeInt32BE(elements.length, 12)
  bytes.writeInt32BE(1, 16)
  return bytes.subarray(0, writeElements(bytes, elements, writers[type] as Writer))
}

/** Returns where they end. */
function writeElements(bytes: Buffer, elements: readonly Element[], write: Writer): number {
  let at = headBytes
  /** Of the element before, with its head. */
  let written = 0
  for (let index = 0; index < elements.length; index += 1) {
    const element = elements[index] as Element
    // Tenants, scopes and policies repeat: an element that is the same as the one before is copied.
    if (index > 0 && element === elements[index - 1]) bytes.copyWithin(at, at - written, at)
    else {
      const size = element === null ? -1 : write(bytes, element, at + 4)
      bytes.writeInt32BE(size, at)
      written = 4 + Math.max(0, size)
    }
    at += written
  }
  return at
}

/** Writes an element, and returns its size. Throws for what is none of its type: the text of it would be an error of the server's. */
type Writer = (bytes: Buffer, element: string | number, at: number) => number

const writers: Readonly<Record<string, Writer>> = {
  text: (bytes, element, at) => bytes.write(element as string, at),
  smallint: (bytes, element, at) => bytes.writeInt16BE(element as number, at) - at,
  integer: (bytes, element, at) => bytes.writeInt32BE(element as number, at) - at,
  float8: (bytes, element, at) => bytes.writeDoubleBE(element as number, at) - at,
  uuid: writeUuid,
}

/** Of each character its value as a digit of a hexadecimal number, by its code; 255 of all that are none. */
const digits = new Uint8Array(256).fill(0xff)
for (const [value, digit] of [...'0123456789abcdef'].entries()) {
  digits[digit.charCodeAt(0)] = value
  digits[digit.toUpperCase().charCodeAt(0)] = value
}

/** Where the digits of each byte are in the text. */
const places = Uint8Array.of(0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34)
const uuidLength = 36

/** Buffers can write hexadecimal digits by themselves, but only of a text without dashes: to make that takes seven times as long. */
function writeUuid(bytes: Buffer, element: string | number, at: number): number {
  const text = element as string
  // Together they have more than four bits if one of them is no digit.
  let all = 0
  for (let index = 0; index < places.length; index += 1) {
    const place = places[index] as number
    const high = digits[text.charCodeAt(place)] ?? 0xff
    const low = digits[text.charCodeAt(place + 1)] ?? 0xff
    all |= high | low
    bytes[at + index] = (high << 4) | low
  }
  if (all > 15 || text.length !== uuidLength) throw new RangeError(`${text} is no UUID.`)
  return places.length
}
