/** The JSON of a body; undefined for bytes that are not JSON in UTF-8. */
export function jsonBody(bytes: Uint8Array): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)) }
  } catch {
    return undefined
  }
}

/** Whether parsed JSON has a number beyond the doubles, such as 1e400: it became Infinity, which is stored as null. */
export function hasInfinity(parsed: unknown): boolean {
  // No recursion: it may be nested deeper than the stack.
  const left = [parsed]
  while (left.length > 0) {
    const value = left.pop()
    if (value === Number.POSITIVE_INFINITY || value === Number.NEGATIVE_INFINITY) return true
    if (typeof value !== 'object' || value === null) continue
    for (const member of Object.values(value)) left.push(member)
  }
  return false
}
