import { readLosslessJson } from '../support/lossless-json.js'

export type Body = string | Uint8Array

export interface BodyMeaning {
  /** The same for two bodies exactly if they are the same, byte by byte. */
  readonly spelling: string
  /** The same for two bodies exactly if they ask for the same. */
  readonly meaning: string
  /**
   * Whether a fingerprint has to see nothing but the meaning. Of JSON that `JSON.parse` would change, that has no canonical form, or
   * that is absurd (over 256 levels, numbers of over 400 characters), it may see every byte.
   */
  readonly isPlain: boolean
}

/** What a body that is called JSON says, by a reader of our own. */
export function meaningOf(body: Body): BodyMeaning {
  const bytes = Buffer.from(body as Uint8Array)
  const text = bytes.toString()
  // No body on a wire has no UTF-8 form, only a text that somebody passes in.
  const isText = typeof body === 'string' && text !== body
  const spelling = isText ? `text ${Buffer.from(body, 'utf16le').toString('hex')}` : `bytes ${bytes.toString('hex')}`
  const isUtf8 = !isText && Buffer.compare(Buffer.from(text), bytes) === 0
  const json = isUtf8 ? readLosslessJson(text.startsWith('\ufeff') ? text.slice(1) : text) : null
  if (!json) return { spelling, meaning: spelling, isPlain: true }
  const { meaning, hasUniqueNames, hasExactNumbers, isWellFormed, depth, longestNumber } = json
  const isPlain = hasUniqueNames && hasExactNumbers && isWellFormed && depth <= 256 && longestNumber <= 400
  return { spelling, meaning: `json ${meaning}`, isPlain }
}
