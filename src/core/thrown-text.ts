/** Enough for any message; limits log lines and errors. */
const longestText = 4_000

/**
 * The message of a thrown value, or the value as text. It never throws: foreign code throws anything, such as `Object.create(null)`,
 * an error whose message is a Symbol, or a revoked proxy.
 */
export function thrownText(thrown: unknown): string {
  return safely(() => {
    const hasMessage = typeof thrown === 'object' && thrown !== null && 'message' in thrown
    return String(hasMessage ? thrown.message : thrown).slice(0, longestText)
  }, 'an error without a message')
}

/** The same, prefixed with the error's name, as in `String(error)`. */
export function namedThrownText(thrown: unknown): string {
  const text = thrownText(thrown)
  if (!isError(thrown)) return text
  const name = safely(() => String(thrown.name).slice(0, longestText), 'Error')
  return [name, text].filter((part) => part !== '').join(': ')
}

export function isError(thrown: unknown): thrown is Error {
  return safely(() => thrown instanceof Error, false)
}

/** Reads part of a thrown value, whose getters and traps may throw too. */
export function safely<T>(read: () => T, otherwise: T): T {
  try {
    return read()
  } catch {
    return otherwise
  }
}
