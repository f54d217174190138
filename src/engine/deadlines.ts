import type { Clock } from '../core/clock.js'

/** A call that somebody waits for. */
export interface Waiting {
  /** On the monotonic clock. */
  readonly until: number
  /** Called once, at `until`, unless the call has ended before. */
  giveUp(): void
  /** Its neighbours among all that are waited for, which are for `Deadlines` to set. */
  previous: Waiting | undefined
  next: Waiting | undefined
}

/**
 * The calls of the store that are waited for, with one timer for all of them: a timer of its own would be the larger part of what a call
 * costs, and nearly all of them end long before it. They are a list in which each knows its neighbours, because a `Set` is copied again
 * and again while calls come and go.
 */
export class Deadlines {
  readonly #clock: Clock
  #first: Waiting | undefined
  #last: Waiting | undefined
  /** When the timer fires: never later than the earliest deadline. */
  #firesAt = Number.POSITIVE_INFINITY
  #cancel = () => {}

  constructor(clock: Clock) {
    this.#clock = clock
  }

  add(waiting: Waiting): void {
    waiting.previous = this.#last
    if (this.#last) this.#last.next = waiting
    else this.#first = waiting
    this.#last = waiting
    if (waiting.until < this.#firesAt) this.#fireAt(waiting.until)
  }

  /** Nothing happens to one that was given up. */
  remove(waiting: Waiting): void {
    if (!this.#has(waiting)) return
    const { previous, next } = waiting
    if (previous) previous.next = next
    else this.#first = next
    if (next) next.previous = previous
    else this.#last = previous
    waiting.previous = undefined
    waiting.next = undefined
    // A timer that nobody waits for would keep an idle process alive.
    if (!this.#first) this.#fireAt(Number.POSITIVE_INFINITY)
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
    const due: Waiting[] = []
    let earliest = Number.POSITIVE_INFINITY
    for (let waiting = this.#first; waiting; waiting = waiting.next) {
      if (waiting.until <= now) due.push(waiting)
      else earliest = Math.min(earliest, waiting.until)
    }
    this.#fireAt(earliest)
    // Only now: whoever is told may make another call at once, or end one.
    for (const waiting of due) {
      if (!this.#has(waiting)) continue
      this.remove(waiting)
      waiting.giveUp()
    }
  }

  #has(waiting: Waiting): boolean {
    return waiting.previous !== undefined || this.#first === waiting
  }
}
