/** A media type without its parameters, in lower case: what it is, not how it is written. */
export function mediaTypeEssence(contentType: string): string {
  return contentType.split(';', 1)[0]?.trim().toLowerCase() ?? ''
}

/** `application/json` and the `+json` family. */
export function isJson(contentType: string): boolean {
  const essence = mediaTypeEssence(contentType)
  return essence === 'application/json' || essence.endsWith('+json')
}
