import type { Clock } from '../core/clock.js'

/** A clock for unit tests, which moves only when advanced. */
export function manualClock(startMs = Date.UTC(2026, 0, 1)): Clock & { advance(ms: number): void } {
  let now = startMs
  let planned: { at: number; task: () => void }[] = []
  return {
    now: () => now,
    monotonic: () => now,
    schedule(task, delayMs) {
      const entry = { at: now + delayMs, task }
      planned.push(entry)
      return () => {
        planned = planned.filter((other) => other !== entry)
      }
    },
    /** Advances, and runs due tasks at their times and in order. */
    advance(ms) {
      const end = now + ms
      for (;;) {
        const next = planned.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0]
        if (!next) break
        planned = planned.filter((other) => other !== next)
        now = Math.max(now, next.at)
        next.task()
      }
      now = end
    },
  }
}
