import type { Clock } from '../../../core/clock.js'

interface Moment {
  readonly monotonic: number
  readonly wall: number
}

/** How much two good clocks may drift apart: ten times what quartz does. */
const drift = 0.001

/** A look at the database's clock is worth nothing after this: it may have been set, or another server may have taken its place. */
const longestMs = 300_000
/** From this age on it is worth looking again. */
const staleMs = 30_000

/**
 * What the database's clock shows now, between two bounds, without asking it each time. Whatever this process's own clocks do - stand
 * still while the machine sleeps, jump when somebody sets them - the bounds grow apart and stay true: of its two clocks the one that says
 * more counts for the later bound, the one that says less for the earlier. Only clocks that crawl together can fool it.
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

  /** The database showed this, at some time between `asked` and now. */
  saw(shown: number, asked: Moment): void {
    this.#look = { shown, asked, answered: this.moment() }
  }

  get isStale(): boolean {
    return !this.#look || this.#passed(this.#look.asked).most > staleMs
  }

  /** It shows no more than this. Undefined if nobody has looked lately. */
  latest(): number | undefined {
    if (!this.#look) return undefined
    const { most } = this.#passed(this.#look.asked)
    return most > longestMs ? undefined : this.#look.shown + Math.ceil(most * (1 + drift))
  }

  /** It shows at least this. */
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
