import type { Random } from './clock.js'

/** Clients that retry mostly do so within seconds: workers let them go first. */
const firstDelayMs = 15_000
/** After a provider's outage, work resumes within an hour. */
const mostDelayMs = 3_600_000

/** Backoff of workers on a failed key, by the number of attempts: doubles each time, with jitter. */
export function retryDelayMs(attempts: number, random: Random): number {
  return longestDelayMs(attempts) * (0.5 + random.fraction() / 2)
}

export function longestDelayMs(attempts: number): number {
  return Math.min(mostDelayMs, firstDelayMs * 2 ** attempts)
}
