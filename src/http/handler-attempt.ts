import { type Answer, checkAnswer } from '../core/answer.js'
import type { AfterFailure } from '../core/policy.js'
import type { Outcome } from '../engine/outcome.js'
import type { Attempt } from '../phases/attempt.js'
import type { OpenAttempt } from '../phases/open-attempt.js'
import type { Ended } from '../phases/run-body.js'
import { refusalOf } from './admit.js'
import type { HttpSettings } from './options.js'
import { replyTo } from './replies.js'
import { requestIdOf } from './request-ids.js'

/** What leaves when an attempt is over. */
export type Leaving =
  /** The handler's answer, as it is, with these headers added. */
  | { readonly kind: 'own'; readonly headers: Answer['headers'] }
  /** This, and nothing else. */
  | { readonly kind: 'answer'; readonly answer: Answer }

export interface AttemptSettings {
  readonly settings: HttpSettings<never>
  readonly afterFailure: AfterFailure
}

/** What an adapter needs to conclude an attempt. */
export type Concluding = Pick<HandlerAttempt<unknown>, 'answered' | 'failed' | 'onInterrupted' | 'isFromOutside'>

/**
 * A handler's attempt at a key. The adapter lets the handler run, and reports once what came of it. Nothing may leave before what
 * `answered()` returns says what does: by then it is stored.
 */
export class HandlerAttempt<Tx> {
  readonly #open: OpenAttempt<Tx>
  readonly #with: AttemptSettings
  #leaving: Promise<Leaving> | undefined
  #hasReturned = false
  #onInterrupted: ((leaving: Promise<Leaving>) => void) | undefined

  constructor(open: OpenAttempt<Tx>, settings: AttemptSettings) {
    this.#open = open
    this.#with = settings
    // A client must not wait for a handler that hangs, or whose answer may not be stored any more.
    open.attempt.holding.onAbort((reason) => this.#interrupt(reason))
  }

  /** For `rememberAttempt()`: handlers find their run by it. */
  get attempt(): Attempt<Tx> {
    return this.#open.attempt
  }

  /** True once it is over: what the handler answers from then on goes nowhere. */
  get isOver(): boolean {
    return this.#leaving !== undefined
  }

  /** Calls the handler in the context of its run. */
  within<T>(handler: () => T): T {
    try {
      const returned: unknown = this.#open.within(handler)
      const isPending = typeof returned === 'object' && returned !== null && 'then' in returned
      if (isPending) (returned as Promise<unknown>).then(this.#returned, this.#returned)
      return returned as T
    } catch (error) {
      this.#hasReturned = true
      throw error
    }
  }

  readonly #returned = () => {
    this.#hasReturned = true
  }

  /**
   * Whether an ending is none of the handler's: an error status that comes from a context in which the handler does not run, while it runs;
   * such as a time-out in front. Its client gets it, and the attempt goes on. A success is always the handler's: some libraries lose the
   * context. And so is an error that a framework answers once the handler's promise is settled.
   */
  isFromOutside(status: number): boolean {
    return (status >= 500 || status === 408) && !this.#hasReturned && !this.#open.isWithin()
  }

  /** Stores what the handler answered. */
  answered(answer: Answer): Promise<Leaving> {
    return this.#end(() => this.#store(answer))
  }

  /** The handler threw, or broke its response off. Rejects with the same error, which is for the framework to answer. */
  failed(error: unknown): Promise<Leaving> {
    return this.#end(async () => {
      await this.#open.conclude({ error })
      throw error
    })
  }

  /** The handler does not run: its client has been answered meanwhile. The key is free again. */
  giveBack(): Promise<void> {
    return this.#open.giveBack('its request was answered before the handler could begin')
  }

  /** Both, for a handler whose answer can be waited for. */
  async settle(handler: () => Promise<Answer>): Promise<Leaving> {
    const interrupted = new Promise<Leaving>((resolve) => this.onInterrupted(resolve))
    const handled = this.within(handler).then(
      (answer) => this.answered(answer),
      (error: unknown) => this.failed(error),
    )
    return Promise.race([interrupted, handled])
  }

  /** Called with what leaves if the attempt ends before the handler does. */
  onInterrupted(listener: (leaving: Promise<Leaving>) => void): void {
    if (this.#interrupted) listener(this.#interrupted)
    else this.#onInterrupted = listener
  }

  #interrupted: Promise<Leaving> | undefined

  #interrupt(reason: unknown): void {
    if (this.#leaving) return
    this.#interrupted = this.#end(() => this.#conclude({ error: reason }))
    this.#onInterrupted?.(this.#interrupted)
  }

  /** Whatever ends it first is its end. */
  #end(end: () => Promise<Leaving>): Promise<Leaving> {
    this.#leaving ??= end()
    return this.#leaving
  }

  async #store(given: Answer): Promise<Leaving> {
    let answer: Answer
    try {
      answer = checkAnswer(given)
    } catch (error) {
      await this.#open.conclude({ error })
      throw error
    }
    const { afterFailure } = this.#with
    if (answer.status < 500 || afterFailure === 'store') return this.#conclude({ answer })
    // The client gets it all the same; the attempt ends as `afterFailure` says.
    const error = new Error(`the handler answered ${answer.status}`)
    try {
      return await this.#conclude({ error })
    } catch (thrown) {
      if (thrown === error) return this.#own()
      throw thrown
    }
  }

  async #conclude(ended: Ended<Answer>): Promise<Leaving> {
    const { settings } = this.#with
    let outcome: Outcome<Answer>
    try {
      outcome = await this.#open.conclude(ended)
    } catch (error) {
      const refusal = refusalOf(settings, error)
      if (refusal) return { kind: 'answer', answer: refusal }
      throw error
    }
    if (outcome.kind !== 'executed') return { kind: 'answer', answer: replyTo(settings, outcome) }
    const isOwn = 'answer' in ended && outcome.answer === ended.answer
    return isOwn ? this.#own() : { kind: 'answer', answer: outcome.answer }
  }

  #own(): Leaving {
    const { requestIds } = this.#with.settings.profile
    return requestIds ? { kind: 'own', headers: [['request-id', requestIdOf(this.attempt.incarnation)]] } : ownAsItIs
  }
}

const ownAsItIs: Leaving = { kind: 'own', headers: [] }
