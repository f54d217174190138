/** `Retry-After` in seconds or as a date. A date is compared with the receiver's own clock, if it sends one. */
export function retryAfterMs(headers: Headers): { readonly retryAfterMs?: number } {
  const value = headers.get('retry-after')?.trim()
  if (!value) return {}
  if (/^\d+$/.test(value)) return { retryAfterMs: Number(value) * 1_000 }
  const at = Date.parse(value)
  const now = Date.parse(headers.get('date') ?? '')
  const ms = at - (Number.isNaN(now) ? Date.now() : now)
  return ms > 0 ? { retryAfterMs: ms } : {}
}
