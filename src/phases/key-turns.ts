import type { Clock } from '../core/clock.js'

interface Waiting {
  begin(): void
}

/**
 * Lets one request of this process at a time use a key. The others wait here, in order, and not in the database: there each would have a connection
 * of the pool, and duplicates of one message would leave none for anyone else.
 */
export class KeyTurns {
  readonly #clock: Clock
  /** Those that wait for each key that is in use. */
  readonly #inUse = new Map<string, Set<Waiting>>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** True when it is the caller's turn, which `end()` must follow. False if it did not come within `waitMs`. */
  take(id: string, waitMs: number): Promise<boolean> | true {
    const waiters = this.#inUse.get(id)
    if (!waiters) {
      this.#inUse.set(id, new Set())
      return true
    }
    return new Promise((resolve) => {
      const waiting: Waiting = {
        begin() {
          cancel()
          resolve(true)
        },
      }
      const cancel = this.#clock.schedule(() => {
        waiters.delete(waiting)
        resolve(false)
      }, waitMs)
      waiters.add(waiting)
    })
  }

  end(id: string): void {
    const waiters = this.#inUse.get(id)
    const [next] = waiters ?? []
    if (!next) {
      this.#inUse.delete(id)
      return
    }
    waiters?.delete(next)
    next.begin()
  }
}
