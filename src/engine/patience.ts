import type { Clock, Random } from '../core/clock.js'
import { isOncekeyError, OncekeyError } from '../core/errors.js'
import type { Deadlines, Waiting } from './deadlines.js'

/** How long, and how often, a call of the store is tried. */
export interface Patience {
  /** On the monotonic clock. */
  readonly until: number
  readonly tries: number
}

const firstDelayMs = 25
const longestDelayMs = 1_000

/** What patience needs of the engine. */
export interface PatienceParts {
  readonly clock: Clock
  readonly random: Random
  readonly deadlines: Deadlines
}

/**
 * Repeats a call whose answer did not come because the store could not be reached, with full jitter. Only for calls that may
 * be repeated: the store's verbs recognise themselves. `late` gets the answer of a try that was no longer waited for.
 */
export function patiently<T>(
  call: () => Promise<T>,
  patience: Patience,
  parts: PatienceParts,
  late: (answer: T) => void = () => {},
): Promise<T> {
  return new Promise<T>((resolve, reject) => new PatientCall(call, patience, parts, { resolve, reject, late }).begin())
}

interface Ends<T> {
  resolve(answer: T): void
  reject(error: unknown): void
  late(answer: T): void
}

/** Not an async function: each request makes two of these calls, and with the promises of one they would cost three times as much. */
class PatientCall<T> implements Waiting {
  readonly until: number
  #attempt = 0
  #isGivenUp = false

  constructor(
    readonly call: () => Promise<T>,
    readonly patience: Patience,
    readonly parts: PatienceParts,
    readonly ends: Ends<T>,
  ) {
    this.until = patience.until
  }

  begin(): void {
    this.#attempt += 1
    this.parts.deadlines.add(this)
    try {
      this.call().then(
        (answer) => this.#succeed(answer),
        (error: unknown) => this.#fail(error),
      )
    } catch (error) {
      this.#fail(error)
    }
  }

  giveUp(): void {
    this.#isGivenUp = true
    this.ends.reject(storeTimeout())
  }

  #succeed(answer: T): void {
    this.parts.deadlines.remove(this)
    if (this.#isGivenUp) this.ends.late(answer)
    else this.ends.resolve(answer)
  }

  #fail(error: unknown): void {
    if (this.#isGivenUp) return
    const { clock, random, deadlines } = this.parts
    deadlines.remove(this)
    const delayMs = random.fraction() * Math.min(longestDelayMs, firstDelayMs * 2 ** this.#attempt)
    const isLast = this.#attempt >= this.patience.tries || clock.monotonic() + delayMs >= this.until
    if (isLast || !mayPass(error)) this.ends.reject(error)
    else clock.schedule(() => this.begin(), delayMs)
  }
}

/** Trouble that can be over the next moment: a broken connection, a failover, a disk that is being cleared. */
function mayPass(error: unknown): boolean {
  return (['store_unavailable', 'store_read_only', 'store_full'] as const).some((code) => isOncekeyError(error, code))
}

export const storeTimeout = () =>
  new OncekeyError('store_timeout', 'The store did not answer in time: check its load and its locks, or raise storeTimeout.')
