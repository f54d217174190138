import { randomUuid } from './uuid.js'

/**
 * Time and randomness come in here and nowhere else, so that tests own them.
 *
 * Nothing a store decides hangs on this clock: leases and expiry are compared with the database's own. The process's
 * clock may only make a holder give up earlier, and for that it is monotonic.
 */
export interface Clock {
  /** Milliseconds since the epoch. The memory store, which has no database to ask, is the only one to use it. */
  now(): number
  /** Milliseconds that only ever grow, also while the process is frozen or the wall clock is set back. */
  monotonic(): number
  /**
   * Runs `task` once, `delayMs` from now; the returned function calls it off. In the background it does not keep a process alive that
   * has nothing else to do.
   */
  schedule(task: () => void, delayMs: number, options?: { background?: boolean }): () => void
}

export interface Random {
  uuid(): string
  /** A number in [0, 1), for jitter. */
  fraction(): number
}

/** Node's timers count in 32 bits, and fire at once when asked for more. */
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
