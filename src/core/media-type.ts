/** A media type without its parameters, in lower case: what it is, not how it is written. */
export function mediaTypeEssence(contentType: string): string {
  const end = contentType.indexOf(';')
  return (end === -1 ? contentType : contentType.slice(0, end)).trim().toLowerCase()
}

/** `application/json` and the `+json` family. */
export function isJson(contentType: string): boolean {
  const essence = mediaTypeEssence(contentType)
  return essence === 'application/json' || essence.endsWith('+json')
}
