import type { Random } from '../core/clock.js'
import { type Duration, durationMs } from '../core/duration.js'

export interface BackoffOptions {
  /** The longest wait before the second attempt; it doubles with each further one. Too low: a hiccup uses up attempts. Default 1 s. */
  first?: Duration
  /** The longest wait there is. Too low: a receiver that is down is asked often. Too high: it is back long before its jobs are. Default 1 h. */
  most?: Duration
}

/** A receiver may ask for more time than any backoff, but not for ever. */
const longestRetryAfterMs = 86_400_000

/**
 * How long a job waits after its n-th attempt: anything from nothing to the longest wait, so that jobs that failed together do not come back
 * together. The receiver's own word is the least; a quarter of it is for spreading.
 */
export function backoff(
  { first = '1s', most = '1h' }: BackoffOptions,
  random: Random,
): (attempt: number, retryAfterMs?: number | undefined) => number {
  const firstMs = durationMs(first, 'backoff.first')
  const mostMs = durationMs(most, 'backoff.most')
  return (attempt, retryAfterMs) => {
    const waitMs = random.fraction() * Math.min(mostMs, firstMs * 2 ** (attempt - 1))
    if (retryAfterMs === undefined || !(retryAfterMs > 0)) return waitMs
    return Math.max(waitMs, Math.min(retryAfterMs, longestRetryAfterMs) * (1 + random.fraction() / 4))
  }
}
