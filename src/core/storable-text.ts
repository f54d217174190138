/** A text for the people who look at a key, of characters that any store can keep, and not too long. */
export function storableText(text: string): string {
  return text.slice(0, 500).replace(/[\0\p{Surrogate}]/gu, '\uFFFD')
}

/** What an error says, for the same people. It never throws: code that is not ours throws anything, with a `message` of any kind. */
export function storableErrorText(error: unknown): string {
  try {
    const hasMessage = typeof error === 'object' && error !== null && 'message' in error
    return storableText(String(hasMessage ? error.message : error))
  } catch {
    return 'an error that has no text'
  }
}
