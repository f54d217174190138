import { randomUuid } from './uuid.js'

/**
 * The only source of time and randomness, so that tests control them.
 *
 * No store decides by this clock: leases and expiry are compared with the database's own. The process's clock can only make a holder give
 * up earlier, and for that it is monotonic.
 */
export interface Clock {
  /** Milliseconds since the epoch. Only the memory store decides by it. */
  now(): number
  /** Milliseconds that never go back, even if the process is frozen or the wall clock is set back. */
  monotonic(): number
  /**
   * Runs `task` once, `delayMs` from now; the returned function cancels it. With `background` it does not keep the process alive.
   */
  schedule(task: () => void, delayMs: number, options?: { background?: boolean }): () => void
}

export interface Random {
  uuid(): string
  /** A number in [0, 1), for jitter. */
  fraction(): number
}

/** Node's timers are 32-bit, and fire at once when asked for more. */
const longestTimerMs = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  schedule(task, delayMs, { background = false } = {}) {
    let timer: NodeJS.Timeout
    const arm = (leftMs: number) => {
      timer = setTimeout(() => (leftMs > longestTimerMs ? arm(leftMs - longestTimerMs) : task()), Math.min(leftMs, longestTimerMs))
      if (background) timer.unref()
    }
    arm(delayMs)
    return () => clearTimeout(timer)
  },
}

export const systemRandom: Random = {
  uuid: randomUuid,
  fraction: () => Math.random(),
}
