import { thrownText } from './thrown-text.js'

/** A text for the people who look at a key, of characters that any store can keep, and not too long. */
export function storableText(text: string): string {
  return text.slice(0, 500).replace(/[\0\p{Surrogate}]/gu, '\uFFFD')
}

/** What an error says, for the same people. It never throws. */
export function storableErrorText(error: unknown): string {
  return storableText(thrownText(error))
}
