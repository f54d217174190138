import { thrownText } from './thrown-text.js'

/** A text for operators, shortened and limited to characters that any store can hold. */
export function storableText(text: string): string {
  return text.slice(0, 500).replace(/[\0\p{Surrogate}]/gu, '\uFFFD')
}

/** The message of an error, for operators. It never throws. */
export function storableErrorText(error: unknown): string {
  return storableText(thrownText(error))
}
