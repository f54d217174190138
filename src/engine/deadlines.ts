import type { Clock } from '../core/clock.js'

/** A call that somebody waits for. */
export interface Waiting {
  /** On the monotonic clock. */
  readonly until: number
  /** Called once, at `until`, unless the call has ended before. */
  giveUp(): void
}

/**
 * The calls of the store that are waited for, with one timer for all of them: a timer of its own would be the larger part of what a call
 * costs, and nearly all of them end long before it.
 */
export class Deadlines {
  readonly #clock: Clock
  readonly #waiting = new Set<Waiting>()
  /** When the timer fires: never later than the earliest deadline. */
  #firesAt = Number.POSITIVE_INFINITY
  #cancel = () => {}

  constructor(clock: Clock) {
    this.#clock = clock
  }

  add(waiting: Waiting): void {
    this.#waiting.add(waiting)
    if (waiting.until < this.#firesAt) this.#fireAt(waiting.until)
  }

  remove(waiting: Waiting): void {
    this.#waiting.delete(waiting)
    // A timer that nobody waits for would keep an idle process alive.
    if (this.#waiting.size === 0) this.#fireAt(Number.POSITIVE_INFINITY)
  }

  #fireAt(moment: number): void {
    this.#cancel()
    this.#firesAt = moment
    this.#cancel =
      moment === Number.POSITIVE_INFINITY
        ? () => {}
        : this.#clock.schedule(() => this.#fire(moment), Math.max(0, moment - this.#clock.monotonic()))
  }

  /** By the moment that the timer was set for: a timer of Node may fire a fraction of a millisecond before it. */
  #fire(moment: number): void {
    const now = Math.max(moment, this.#clock.monotonic())
    let next = Number.POSITIVE_INFINITY
    for (const waiting of this.#waiting) {
      if (waiting.until > now) {
        next = Math.min(next, waiting.until)
        continue
      }
      this.#waiting.delete(waiting)
      waiting.giveUp()
    }
    this.#fireAt(next)
  }
}
