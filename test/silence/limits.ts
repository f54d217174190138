/** `npm run test:long`. */
export const long = process.env.ONCEKEY_LONG === '1'

/** Of the services of this campaign: short, so that what ends by a limit ends soon. */
export const limits = {
  storeTimeoutMs: 1_500,
  leaseMs: 3_000,
  maxRunMs: 4_000,
  /** How often each worker looks. */
  everyMs: 250,
  connections: 12,
  /** How long a connection may take to open. */
  connectMs: 1_000,
}

/** A request that nothing has run for ends within this. */
export const longestClaimMs = limits.storeTimeoutMs + 1_000

/** One whose work began: its claim, its work, and its end, which is tried for as long as the lease is certain. */
export const longestRunMs = longestClaimMs + limits.maxRunMs + Math.max(limits.leaseMs, limits.storeTimeoutMs)

/**
 * How long a call of background work may take, if less than the 15 s that the engine gives it. A call to which the engine gives no limit gets none
 * from this. Long runs leave the engine's own.
 */
export const backgroundCallMs = long ? Number.POSITIVE_INFINITY : 4_000

/** Every worker runs again within this, and `stop()` ends. */
export const recoveryMs = 30_000

/** What workers carry out is done within this: an attempt that the fault or a slow machine made fail is made again after up to 30 s. */
export const workMs = recoveryMs + 30_000

/** The 99th percentile of requests that have nothing to do with the fault, while the database and a connection are healthy. */
export const healthyMs = 1_000

/** How long a fault lasts. */
export const faultMs = { locked: long ? 60_000 : 3_000, hung: long ? 20_000 : 4_000, dark: long ? 20_000 : 3_000 }

/** How large an answer or a job is. */
export const largeBytes = long ? 20_000_000 : 2_000_000
