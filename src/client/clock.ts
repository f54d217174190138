/** Time comes in here and nowhere else, so that tests own it. `manualClock()` of `oncekey/testing` fits. */
export interface ClientClock {
  /** Milliseconds since the epoch: it also counts while a laptop sleeps or the page is closed. */
  now(): number
  /** Runs `task` once, `delayMs` from now; the returned function calls it off. */
  schedule(task: () => void, delayMs: number): () => void
}

export interface ClientRandom {
  uuid(): string
  /** A number in [0, 1), for jitter. */
  fraction(): number
}

/** Timers count in 32 bits, and fire at once when asked for more. */
const longestTimerMs = 2 ** 31 - 1

export const systemClock: ClientClock = {
  now: () => Date.now(),
  schedule(task, delayMs) {
    const timer = setTimeout(task, Math.min(delayMs, longestTimerMs))
    return () => clearTimeout(timer)
  },
}
