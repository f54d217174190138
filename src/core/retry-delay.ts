import type { Random } from './clock.js'

/** Clients that come back themselves mostly do so within seconds: workers let them go first. */
const firstDelayMs = 15_000
/** A provider that is down for a day should not cost more than a day and an hour. */
const mostDelayMs = 3_600_000

/** How long workers leave a key alone that failed, by how often they have tried: twice as long each time, and never all at once. */
export function retryDelayMs(attempts: number, random: Random): number {
  return longestDelayMs(attempts) * (0.5 + random.fraction() / 2)
}

export function longestDelayMs(attempts: number): number {
  return Math.min(mostDelayMs, firstDelayMs * 2 ** attempts)
}
