import type { Clock, Random } from '../core/clock.js'
import { isOncekeyError, storeTimeout } from '../core/errors.js'
import type { Limit } from '../core/store.js'
import type { Deadlines, Waiting } from './deadlines.js'

/** How long, and how often, a call of the store is tried. */
export interface Patience {
  /** On the monotonic clock. */
  readonly until: number
  readonly tries: number
  /** How long one try may take. Its connection may have gone silent; the next try gets another one. Default: until `until`. */
  readonly tryMs?: number
}

/** What patience needs of the engine. */
export interface PatienceParts {
  readonly clock: Clock
  readonly random: Random
  readonly deadlines: Deadlines
}

const firstDelayMs = 25
const longestDelayMs = 1_000

/**
 * Repeats a call whose answer did not come because the store could not be reached, with full jitter. Only for calls that may
 * be repeated: the store's verbs recognise themselves.
 */
export function patiently<T>(call: (limit: Limit) => Promise<T>, patience: Patience, parts: PatienceParts): Promise<T> {
  return new PlainCall(call, patience, parts).begin()
}

const nobody = () => {}

/**
 * A call that is made patiently, as an object: each request makes two, and as async functions, with their promises and closures, they
 * would be most of what a request leaves to the garbage collector.
 */
export abstract class PatientCall<T, Result> implements Waiting {
  until = 0
  previous: Waiting | undefined
  next: Waiting | undefined
  #tries = 0
  #tryMs = Number.POSITIVE_INFINITY
  #attempt = 0
  #isGivenUp = false
  #resolve: (result: Result | Promise<Result>) => void = nobody
  #reject: (error: unknown) => void = nobody

  constructor(protected readonly parts: PatienceParts) {}

  protected abstract patience(): Patience

  /** One try. At the limit it ends by itself and destroys its connection: the caller no longer waits. */
  protected abstract send(limit: Limit): Promise<T>

  /** How soon it asks again, after an answer that is not the last word. Undefined for one that is. */
  protected asksAgainInMs(_: T): number | undefined {
    return undefined
  }

  /** What the answer comes to. */
  protected abstract answered(answer: T): Result | Promise<Result>

  /** What it comes to that there is no answer. */
  protected failed(error: unknown): Result {
    throw error
  }

  /** Gets an answer that was no longer waited for. */
  protected late(_: T): void {}

  /** Gets the error of each try that failed. */
  protected tried(_: unknown): void {}

  /** Called at the end of each try, after all of the above. */
  protected ended(): void {}

  begin(): Promise<Result> {
    const asked = new Promise<Result>((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
      this.#ask()
    })
    // Here, and not where a deadline is noticed, which is in the context of whoever set the timer: listeners hear of a request in its own.
    return asked.catch((error: unknown) => {
      if (error instanceof Unanswered) return this.failed(error.reason)
      throw error
    })
  }

  #ask(): void {
    const { until, tries, tryMs = Number.POSITIVE_INFINITY } = this.patience()
    this.#tryMs = tryMs
    this.until = until
    this.#tries = tries
    this.#attempt = 0
    this.#try()
  }

  giveUp(): void {
    this.#isGivenUp = true
    this.#end(storeTimeout())
  }

  #try(): void {
    this.#attempt += 1
    this.parts.deadlines.add(this)
    try {
      const leftMs = this.until - this.parts.clock.monotonic()
      this.send({ timeoutMs: Math.max(1, Math.min(this.#tryMs, leftMs)) }).then(
        (answer) => this.#succeed(answer),
        (error: unknown) => this.#fail(error),
      )
    } catch (error) {
      this.#fail(error)
    }
  }

  #succeed(answer: T): void {
    this.parts.deadlines.remove(this)
    try {
      if (this.#isGivenUp) {
        this.late(answer)
        return
      }
      const delayMs = this.asksAgainInMs(answer)
      if (delayMs === undefined) this.#resolve(this.answered(answer))
      else this.#after(delayMs).then(() => this.#ask())
    } catch (error) {
      this.#reject(error)
    } finally {
      this.ended()
    }
  }

  #fail(error: unknown): void {
    this.tried(error)
    this.ended()
    if (this.#isGivenUp) return
    const { clock, random, deadlines } = this.parts
    deadlines.remove(this)
    const delayMs = random.fraction() * Math.min(longestDelayMs, firstDelayMs * 2 ** this.#attempt)
    const isLast = this.#attempt >= this.#tries || clock.monotonic() + delayMs >= this.until
    if (isLast || !mayPass(error)) this.#end(error)
    else this.#after(delayMs).then(() => this.#try())
  }

  #after(delayMs: number): Promise<void> {
    return new Promise((resolve) => this.parts.clock.schedule(resolve, delayMs))
  }

  #end(error: unknown): void {
    this.#reject(new Unanswered(error))
  }
}

/** There is no answer, and this is why. */
class Unanswered {
  constructor(readonly reason: unknown) {}
}

class PlainCall<T> extends PatientCall<T, T> {
  readonly #call: (limit: Limit) => Promise<T>
  readonly #patience: Patience

  constructor(call: (limit: Limit) => Promise<T>, patience: Patience, parts: PatienceParts) {
    super(parts)
    this.#call = call
    this.#patience = patience
  }

  protected override patience(): Patience {
    return this.#patience
  }

  protected override send(limit: Limit): Promise<T> {
    return this.#call(limit)
  }

  protected override answered(answer: T): T {
    return answer
  }
}

/** Transient errors: a broken or silent connection, a failover, a full disk. */
function mayPass(error: unknown): boolean {
  return (['store_unavailable', 'store_timeout', 'store_read_only', 'store_full'] as const).some((code) => isOncekeyError(error, code))
}
