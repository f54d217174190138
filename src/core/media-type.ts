/** A media type without its parameters, in lower case. */
export function mediaTypeEssence(contentType: string): string {
  const end = contentType.indexOf(';')
  return (end === -1 ? contentType : contentType.slice(0, end)).trim().toLowerCase()
}

/** `application/json` and the `+json` family. */
export function isJson(contentType: string): boolean {
  const essence = mediaTypeEssence(contentType)
  return essence === 'application/json' || essence.endsWith('+json')
}

/** JSON in UTF-8, which is the default unless a parameter says otherwise. */
export function isUtf8Json(contentType: string): boolean {
  if (!isJson(contentType)) return false
  if (!contentType.includes(';')) return true
  return Array.from(contentType.matchAll(charsets)).every(([, charset = '']) => /^utf-?8$/i.test(charset))
}

const charsets = /charset\s*=\s*["']?([^\s;"']*)/gi
