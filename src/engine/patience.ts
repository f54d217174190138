import type { Clock, Random } from '../core/clock.js'
import { isOncekeyError, OncekeyError } from '../core/errors.js'

/** How long, and how often, a call of the store is tried. */
export interface Patience {
  /** On the monotonic clock. */
  readonly until: number
  readonly tries: number
}

const firstDelayMs = 25
const longestDelayMs = 1_000

/**
 * Repeats a call whose answer did not come because the store could not be reached, with full jitter. Only for calls that may
 * be repeated: the store's verbs recognise themselves. `late` gets the answer of a try that was no longer waited for.
 */
export async function patiently<T>(
  call: () => Promise<T>,
  { until, tries }: Patience,
  { clock, random }: { clock: Clock; random: Random },
  late: (answer: T) => void = () => {},
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await beforeDeadline(call(), until, clock, late)
    } catch (error) {
      const delayMs = random.fraction() * Math.min(longestDelayMs, firstDelayMs * 2 ** attempt)
      if (!mayPass(error) || attempt >= tries || clock.monotonic() + delayMs >= until) throw error
      await new Promise<void>((resolve) => clock.schedule(resolve, delayMs))
    }
  }
}

/** Trouble that can be over the next moment: a broken connection, a failover, a disk that is being cleared. */
function mayPass(error: unknown): boolean {
  return (['store_unavailable', 'store_read_only', 'store_full'] as const).some((code) => isOncekeyError(error, code))
}

export const storeTimeout = () =>
  new OncekeyError('store_timeout', 'The store did not answer in time: check its load and its locks, or raise storeTimeout.')

function beforeDeadline<T>(answer: Promise<T>, until: number, clock: Clock, late: (answer: T) => void): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    let waiting = true
    const cancel = clock.schedule(
      () => {
        waiting = false
        reject(storeTimeout())
      },
      Math.max(0, until - clock.monotonic()),
    )
    answer.then(
      (value) => {
        cancel()
        if (waiting) resolve(value)
        else late(value)
      },
      (error: unknown) => {
        cancel()
        reject(error)
      },
    )
  })
}
