/** The server's word on when to come back, as seconds or as a date. A date is compared with the server's own clock, if it says. */
export function retryAfterMs(headers: Headers, now: number): number | undefined {
  const value = headers.get('retry-after')?.trim() ?? ''
  if (/^\d+$/.test(value)) return Number(value) * 1_000
  const ms = httpDate(value) - (httpDate(headers.get('date') ?? '') || now)
  return Number.isNaN(ms) ? undefined : Math.max(0, ms)
}

/** All three forms of an HTTP date begin with the name of a day. The oldest does not say that it is GMT. `Date.parse` alone takes `-1` for a date. */
function httpDate(value: string): number {
  if (!/^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(value)) return Number.NaN
  return Date.parse(value.endsWith('GMT') ? value : `${value} GMT`)
}

/**
 * How long to wait after the n-th attempt. The server's word is the least, with up to a quarter on top; without one it is anything from
 * nothing to a wait that doubles. So clients that failed together do not come back together.
 */
export function retryDelayMs(
  { firstDelay, maxDelay }: { readonly firstDelay: number; readonly maxDelay: number },
  attempt: number,
  askedMs: number | undefined,
  fraction: number,
): number {
  if (askedMs) return askedMs * (1 + fraction / 4)
  return fraction * Math.min(maxDelay, firstDelay * 2 ** (attempt - 1))
}
