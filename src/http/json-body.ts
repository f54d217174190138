/** The JSON of a body; undefined for bytes that are not JSON in UTF-8. */
export function jsonBody(bytes: Uint8Array): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)) }
  } catch {
    return undefined
  }
}
