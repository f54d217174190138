import { randomFillSync } from 'node:crypto'

/** UUIDs per refill: a few random bytes take as long as many. */
const atOnce = 256
const random = new Uint8Array(atOnce * 16)
let used = random.length

const dash = 45
const digits = [...'0123456789abcdef'].map((digit) => digit.charCodeAt(0))
/** The output buffer, with dashes in place. */
const text = Buffer.alloc(36, dash)

/**
 * A random UUID, one for each request. `crypto.randomUUID()` concatenates twenty strings, in ten times the memory of the result.
 */
export function randomUuid(): string {
  if (used === random.length) {
    randomFillSync(random)
    used = 0
  }
  random[used + 6] = ((random[used + 6] as number) & 0x0f) | 0x40
  random[used + 8] = ((random[used + 8] as number) & 0x3f) | 0x80
  let at = 0
  for (let index = 0; index < 16; index += 1) {
    if (index === 4 || index === 6 || index === 8 || index === 10) at += 1
    const byte = random[used + index] as number
    text[at++] = digits[byte >> 4] as number
    text[at++] = digits[byte & 15] as number
  }
  used += 16
  return text.toString('latin1')
}
