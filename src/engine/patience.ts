import type { Clock, Random } from '../core/clock.js'
import { isOncekeyError, storeTimeout } from '../core/errors.js'
import type { Limit } from '../core/store.js'

/** How long, and how often, a store call is tried. */
export interface Patience {
  /** On the monotonic clock. */
  readonly until: number
  readonly tries: number
  /** Limit of one try, whose connection may be silent; the next try gets another. Default: until `until`. */
  readonly tryMs?: number
}

export interface PatienceParts {
  readonly clock: Clock
  readonly random: Random
}

/** Callbacks for single tries. */
export interface Watch<T> {
  /** Gets the error of each failed try, even one no longer awaited. */
  tried?(error: unknown): void
  /** Gets an answer that came too late. */
  late?(answer: T): void
}

const firstDelayMs = 25
const longestDelayMs = 1_000

/**
 * Retries a call while the store cannot be reached, with full jitter. Only for calls that may be repeated: the store's verbs recognise
 * themselves. Each try is given its limit; at `until` its caller stops waiting in any case.
 */
export async function patiently<T>(
  call: (limit: Limit) => Promise<T>,
  { until, tries, tryMs = Number.POSITIVE_INFINITY }: Patience,
  { clock, random }: PatienceParts,
  watch?: Watch<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    const leftMs = Math.max(1, until - clock.monotonic())
    try {
      return await waitFor(call, { timeoutMs: Math.min(tryMs, leftMs) }, leftMs, clock, watch)
    } catch (error) {
      if (error instanceof Late) throw storeTimeout()
      const delayMs = random.fraction() * Math.min(longestDelayMs, firstDelayMs * 2 ** attempt)
      if (attempt >= tries || clock.monotonic() + delayMs >= until || !mayPass(error)) throw error
      await pause(clock, delayMs)
    }
  }
}

export function pause(clock: Clock, delayMs: number): Promise<void> {
  return new Promise((resolve) => void clock.schedule(resolve, delayMs))
}

class Late {}

function waitFor<T>(call: (limit: Limit) => Promise<T>, limit: Limit, leftMs: number, clock: Clock, watch?: Watch<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    let isLate = false
    const cancel = clock.schedule(() => {
      isLate = true
      reject(new Late())
    }, leftMs)
    const answered = (answer: T) => {
      cancel()
      if (isLate) watch?.late?.(answer)
      else resolve(answer)
    }
    const failed = (error: unknown) => {
      cancel()
      watch?.tried?.(error)
      reject(error)
    }
    try {
      call(limit).then(answered, failed)
    } catch (error) {
      failed(error)
    }
  })
}

/** Transient errors: a broken or silent connection, a failover, a full disk. */
function mayPass(error: unknown): boolean {
  return (['store_unavailable', 'store_timeout', 'store_read_only', 'store_full'] as const).some((code) => isOncekeyError(error, code))
}
