/** Limits the bytes of payloads that a relay holds. Waiters are served in order, so that large payloads do not starve. */
export function createRoom<Waiter>(maxBytes: number) {
  /** `along`: came with the take. `read`: fetched by a later statement. */
  const used = { along: 0, read: 0 }
  const waiting = new Set<Waiter>()

  return {
    isFull: () => used.along + used.read >= maxBytes,
    enter(bytes: number): void {
      used.along += bytes
    },
    /** False if there is no room now; `waiter` is then queued. A payload larger than the limit is admitted alone. */
    mayRead(waiter: Waiter, bytes: number): boolean {
      const [first = waiter] = waiting
      const fits = used.read === 0 || used.along + used.read + bytes <= maxBytes
      if (first !== waiter || !fits) {
        waiting.add(waiter)
        return false
      }
      waiting.delete(waiter)
      used.read += bytes
      return true
    },
    leave(bytes: number, kind: keyof typeof used): void {
      used[kind] -= bytes
    },
    /** Removes a waiter from the queue. True if it was queued: others may have waited behind it. */
    giveUp: (waiter: Waiter) => waiting.delete(waiter),
    waiters: (): readonly Waiter[] => [...waiting],
  }
}
