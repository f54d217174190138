import type { Random } from '../core/clock.js'
import { type Duration, durationMs } from '../core/duration.js'

export interface BackoffOptions {
  /** The longest wait before the second attempt; it doubles with each one. Too low: a hiccup uses up attempts. Default 1 s. */
  first?: Duration
  /** The longest wait. Too low: a receiver that is down is called often. Too high: it recovers long before its jobs arrive. Default 1 h. */
  most?: Duration
}

/** Upper limit of a receiver's `Retry-After`. */
const longestRetryAfterMs = 86_400_000

/**
 * The wait after the n-th attempt: random, from zero to the longest, so that jobs that failed together do not retry together. A receiver's
 * `Retry-After` is the minimum, with up to a quarter of it added as jitter.
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
