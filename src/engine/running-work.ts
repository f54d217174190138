import type { Clock } from '../core/clock.js'
import { OncekeyError } from '../core/errors.js'

/** One piece of work that holds a key. */
export interface Underway {
  /** Gives the key back, or ends it as its `afterFailure` says, while the work still goes on: it can store nothing any more. */
  abandon(error: OncekeyError): Promise<void>
}

/** What this process is working on, so that it can stop without leaving a key to run out its lease. */
export class RunningWork {
  readonly #clock: Clock
  readonly #underway = new Set<Underway>()
  #isOpen = true
  #whenIdle: (() => void)[] = []
  #tellStopped = () => {}
  /** Settled once the process has stopped: what goes on then has no key any more. */
  readonly stopped = new Promise<void>((resolve) => {
    this.#tellStopped = resolve
  })

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** False once the process is stopping. */
  get isOpen(): boolean {
    return this.#isOpen
  }

  /** Throws once the process is stopping: nothing new is claimed. */
  assertOpen(): void {
    if (!this.#isOpen) throw shuttingDown()
  }

  /** To be followed by `end()`, whatever becomes of the work. */
  begin(work: Underway): void {
    this.#underway.add(work)
  }

  end(work: Underway): void {
    this.#underway.delete(work)
    this.#tellIfIdle()
  }

  /** Lets nothing new begin, waits for what is under way, and takes the keys from what is not done in time. */
  async stop(withinMs: number): Promise<{ readonly abandoned: number }> {
    this.#isOpen = false
    await this.#idle(withinMs)
    const late = [...this.#underway]
    // Before it is done: whoever else stops need not do it again.
    this.#underway.clear()
    await Promise.all(late.map((work) => work.abandon(takenBack())))
    this.#tellIfIdle()
    this.#tellStopped()
    return { abandoned: late.length }
  }

  #tellIfIdle(): void {
    if (this.#underway.size > 0) return
    for (const tell of this.#whenIdle.splice(0)) tell()
  }

  #idle(withinMs: number): Promise<void> {
    if (this.#underway.size === 0) return Promise.resolve()
    return new Promise((resolve) => {
      const cancel = this.#clock.schedule(resolve, withinMs)
      this.#whenIdle.push(() => {
        cancel()
        resolve()
      })
    })
  }
}

const takenBack = () =>
  new OncekeyError(
    'lease_lost',
    'This process is stopping, and the work was not done in time: its key was given back. Ask again for its answer.',
  )

export const shuttingDown = () =>
  new OncekeyError('shutting_down', 'This process is stopping, and takes no new work: send the same request again, to another one.')
