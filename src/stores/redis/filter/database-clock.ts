import type { Clock } from '../../../core/clock.js'

interface Moment {
  readonly monotonic: number
  readonly wall: number
}

/** Maximum drift between two good clocks: ten times that of quartz. */
const drift = 0.001

/** A reading expires after this: the clock may have been set, or another server may have taken over. */
const longestMs = 300_000
/** From this age on, read it again. */
const staleMs = 30_000

/**
 * Bounds of the database's clock, without a query each time. The bounds widen but stay true even if this process's clocks stop during
 * sleep or are set: the later bound uses whichever of the two clocks advanced more, the earlier bound the one that advanced less. Only
 * both clocks running slow together break it.
 */
export class DatabaseClock {
  readonly #clock: Clock
  #look: { readonly shown: number; readonly asked: Moment; readonly answered: Moment } | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  moment(): Moment {
    return { monotonic: this.#clock.monotonic(), wall: this.#clock.now() }
  }

  /** The database showed this time between `asked` and now. */
  saw(shown: number, asked: Moment): void {
    this.#look = { shown, asked, answered: this.moment() }
  }

  get isStale(): boolean {
    return !this.#look || this.#passed(this.#look.asked).most > staleMs
  }

  /** Upper bound. Undefined without a recent reading. */
  latest(): number | undefined {
    if (!this.#look) return undefined
    const { most } = this.#passed(this.#look.asked)
    return most > longestMs ? undefined : this.#look.shown + Math.ceil(most * (1 + drift))
  }

  /** Lower bound. */
  earliest(): number | undefined {
    if (!this.#look || this.latest() === undefined) return undefined
    return this.#look.shown + Math.floor(Math.max(0, this.#passed(this.#look.answered).least) * (1 - drift))
  }

  #passed({ monotonic, wall }: Moment): { least: number; most: number } {
    const now = this.moment()
    const both = [now.monotonic - monotonic, now.wall - wall]
    return { least: Math.min(...both), most: Math.max(...both) }
  }
}
