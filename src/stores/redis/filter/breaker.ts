import type { Clock } from '../../../core/clock.js'

/** After this many failures in a row, Redis is skipped for `pauseMs`; then one request tries it for all. */
const failuresInARow = 5
const pauseMs = 1_000

/** A circuit breaker, with a time limit, for calls that may hang or fail. */
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

  /** The answer, in `{}`; undefined if it did not come in time or was not requested. */
  async ask<T>(question: () => Promise<T>): Promise<{ readonly answer: T } | undefined> {
    const now = this.#clock.monotonic()
    if (this.#failures >= failuresInARow) {
      if (now < this.#closedUntil) return undefined
      // This one tries; the others skip until it has ended.
      this.#closedUntil = now + pauseMs
    }
    const answer = await this.#inTime(question)
    if (answer) this.#failures = 0
    else this.#fail(now)
    return answer
  }

  /** Concurrent requests fail together: a hundred that met one hiccup count as one failure. */
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
          // The answer may be unread because this process was busy: timers run before sockets, so allow one more turn.
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
