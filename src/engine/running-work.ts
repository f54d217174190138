import type { Clock } from '../core/clock.js'
import { OncekeyError } from '../core/errors.js'

/** Work that holds a key. */
export interface Underway {
  /** Settles the key as its `afterFailure` says while the work still runs: it can store nothing more. */
  abandon(error: OncekeyError): Promise<void>
}

/** The running work of this process, so that it can stop without leaving keys to their leases. */
export class RunningWork {
  readonly #clock: Clock
  readonly #underway = new Set<Underway>()
  #isOpen = true
  #whenIdle: (() => void)[] = []
  #tellStopped = () => {}
  /** Resolves once the process has stopped: work that still runs has no key any more. */
  readonly stopped = new Promise<void>((resolve) => {
    this.#tellStopped = resolve
  })

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  /** Throws once the process is stopping. */
  assertOpen(): void {
    if (!this.#isOpen) throw shuttingDown()
  }

  /** To be followed by `end()` in every case. */
  begin(work: Underway): void {
    this.#underway.add(work)
  }

  end(work: Underway): void {
    this.#underway.delete(work)
    this.#tellIfIdle()
  }

  /** Refuses new work, waits for running work, and abandons what is not done in time. */
  async stop(withinMs: number): Promise<{ readonly abandoned: number }> {
    this.#isOpen = false
    await this.#idle(withinMs)
    const late = [...this.#underway]
    // First: a second `stop()` must not repeat it.
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
    'This process is stopping, and the work was not done in time: its key was released. Retry to get the answer.',
  )

export const shuttingDown = () =>
  new OncekeyError('shutting_down', 'This process is stopping and takes no new work: retry the same request on another one.')
