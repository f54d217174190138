import { randomFillSync } from 'node:crypto'

/** Random bytes for so many at once: to ask for a few takes as long as to ask for many. */
const atOnce = 256
const random = new Uint8Array(atOnce * 16)
let used = random.length

const dash = 45
const digits = [...'0123456789abcdef'].map((digit) => digit.charCodeAt(0))
/** Where the text is written, with its dashes in place. */
const text = Buffer.alloc(36, dash)

/**
 * A random UUID, as `crypto.randomUUID()` makes it. That one is put together from twenty small texts, which are ten times the memory of
 * what comes of them, and each request has a UUID.
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
