import type { ClientClock } from '../../src/client/index.js'

/** What a client may take in these tests: longer than any wait, so that a clock can tell one from the other. */
export const generous = { attemptTimeout: '2h', deadline: '20h' } as const

/**
 * For a client with `generous` limits: waits between attempts take no time. They are noted, and `onWait` is done in the meantime. Limits are
 * never reached.
 */
export function hurriedClock(onWait: () => unknown = () => {}): ClientClock & { readonly waits: number[] } {
  const waits: number[] = []
  let passedMs = 0
  return {
    waits,
    now: () => Date.now() + passedMs,
    schedule(task, delayMs) {
      if (delayMs >= 3_600_000) return () => {}
      waits.push(delayMs)
      let isOff = false
      void (async () => {
        await onWait()
        passedMs += delayMs
        if (!isOff) task()
      })()
      return () => {
        isOff = true
      }
    },
  }
}
