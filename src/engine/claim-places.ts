import type { Clock } from '../core/clock.js'
import { storeTimeout } from '../core/errors.js'
import type { Limit } from '../core/store.js'

interface Waiting {
  begin(): void
}

/**
 * Limits the claims that the store may have executed without an answer. Each of them may have to be withdrawn, so in an outage a process must
 * not send more than it can remember. A claim that finds no place waits unsent, in order, until its caller's limit.
 */
export class ClaimPlaces {
  readonly #clock: Clock
  readonly #most: number
  /** Failed claims that are still to be withdrawn: each keeps a place. */
  readonly #withdrawals: { readonly size: number }
  #sent = 0
  readonly #waiting = new Set<Waiting>()
  #isOffered = false

  constructor(clock: Clock, most: number, withdrawals: { readonly size: number }) {
    this.#clock = clock
    this.#most = most
    this.#withdrawals = withdrawals
  }

  /** False if none is free: then call `wait()`. */
  take(): boolean {
    if (this.#waiting.size > 0 || !this.#isFree()) return false
    this.#sent += 1
    return true
  }

  /** Resolves with the rest of the limit. Rejects at the limit, with an error marked `neverSent`. */
  wait({ timeoutMs }: Limit): Promise<Limit> {
    const until = this.#clock.monotonic() + timeoutMs
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        begin: () => {
          cancel()
          resolve({ timeoutMs: Math.max(1, until - this.#clock.monotonic()) })
        },
      }
      const giveUp = () => {
        this.#waiting.delete(waiting)
        reject(storeTimeout({ neverSent: true }))
      }
      const cancel = this.#clock.schedule(giveUp, timeoutMs)
      this.#waiting.add(waiting)
    })
  }

  /** The store has answered, or the call has failed. */
  release(): void {
    this.#sent -= 1
    this.offer()
  }

  /** Deferred: a claim that has just failed first becomes a withdrawal, which keeps its place. */
  offer(): void {
    if (this.#waiting.size === 0 || this.#isOffered) return
    this.#isOffered = true
    setImmediate(() => {
      this.#isOffered = false
      for (const waiting of this.#waiting) {
        if (!this.#isFree()) return
        this.#waiting.delete(waiting)
        this.#sent += 1
        waiting.begin()
      }
    })
  }

  #isFree(): boolean {
    return this.#sent + this.#withdrawals.size < this.#most
  }
}
