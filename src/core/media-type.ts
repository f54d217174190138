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

/** JSON whose bytes say what they seem to say: they are UTF-8, as JSON always is, unless a parameter says something else. */
export function isUtf8Json(contentType: string): boolean {
  if (!isJson(contentType)) return false
  if (!contentType.includes(';')) return true
  return Array.from(contentType.matchAll(charsets)).every(([, charset = '']) => /^utf-?8$/i.test(charset))
}

const charsets = /charset\s*=\s*["']?([^\s;"']*)/gi
