import type { Clock } from '../../../core/clock.js'

/** Redis is left alone after so many failures, one after the other, for so long; then one request tries it for all. */
const failuresInARow = 5
const pauseMs = 1_000

/** Asks something that may be slow, silent or gone, and never waits for it for long. */
export class Breaker {
  readonly #clock: Clock
  readonly #timeoutMs: number
  #failures = 0
  #lastFailureAt = 0
  #closedUntil = 0

  constructor(clock: Clock, timeoutMs: number) {
    this.#clock = clock
    this.#timeoutMs = timeoutMs
  }

  /** The answer, in `{}`; undefined if there is none in time, or if it was not even asked. */
  async ask<T>(question: () => Promise<T>): Promise<{ readonly answer: T } | undefined> {
    const now = this.#clock.monotonic()
    if (this.#failures >= failuresInARow) {
      if (now < this.#closedUntil) return undefined
      // This one tries; the others wait for what becomes of it.
      this.#closedUntil = now + pauseMs
    }
    const answer = await this.#inTime(question)
    if (answer) this.#failures = 0
    else this.#fail(now)
    return answer
  }

  /** Requests that were under way together failed together: of a hundred that one hiccup met, one counts. */
  #fail(askedAt: number): void {
    if (askedAt <= this.#lastFailureAt) return
    this.#lastFailureAt = this.#clock.monotonic()
    this.#failures += 1
    if (this.#failures >= failuresInARow) this.#closedUntil = this.#lastFailureAt + pauseMs
  }

  #inTime<T>(question: () => Promise<T>): Promise<{ readonly answer: T } | undefined> {
    return new Promise((resolve) => {
      let cancel = this.#clock.schedule(
        () => {
          // The answer may be here, unread because this process was busy: timers come before sockets, so this one waits for a turn.
          cancel = this.#clock.schedule(() => resolve(undefined), 0, { background: true })
        },
        this.#timeoutMs,
        { background: true },
      )
      const asking = async () => question()
      asking().then(
        (answer) => {
          cancel()
          resolve({ answer })
        },
        () => {
          cancel()
          resolve(undefined)
        },
      )
    })
  }
}
