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
  /** Runs `task` once, `delayMs` from now; the returned function calls it off. */
  schedule(task: () => void, delayMs: number): () => void
}

export interface Random {
  uuid(): string
  /** A number in [0, 1), for jitter. */
  fraction(): number
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  schedule(task, delayMs) {
    const timer = setTimeout(task, delayMs)
    // A heartbeat must not keep a process alive that has nothing else to do.
    timer.unref()
    return () => clearTimeout(timer)
  },
}

export const systemRandom: Random = {
  uuid: () => crypto.randomUUID(),
  fraction: () => Math.random(),
}
