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

/** The response when an attempt has ended. */
export type Leaving =
  /** The handler's answer, with these headers added. */
  | { readonly kind: 'own'; readonly headers: Answer['headers'] }
  /** This instead. */
  | { readonly kind: 'answer'; readonly answer: Answer }

export interface AttemptSettings {
  readonly settings: HttpSettings<never>
  readonly afterFailure: AfterFailure
}

/** What an adapter needs to end an attempt. */
export type Concluding = Pick<HandlerAttempt<unknown>, 'answered' | 'failed' | 'onInterrupted' | 'isFromOutside'>

/**
 * A handler's attempt at a key. The adapter runs the handler, and reports its result once. It must send nothing before `answered()` says
 * what: by then the answer is stored.
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
    // A client must not wait for a handler that hangs, or whose answer may not be stored.
    open.attempt.holding.onAbort((reason) => this.#interrupt(reason))
  }

  /** For `rememberAttempt()`: handlers find their run by it. */
  get attempt(): Attempt<Tx> {
    return this.#open.attempt
  }

  /** True once the attempt has ended: later answers of the handler are dropped. */
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
   * True if an error status does not come from the handler but, say, from a time-out in front: it is set outside the handler's context while
   * the handler runs. The client gets it, and the attempt continues. A success is always the handler's, because some libraries lose the
   * context; so is an error that the framework answers after the handler has settled.
   */
  isFromOutside(status: number): boolean {
    return (status >= 500 || status === 408) && !this.#hasReturned && !this.#open.isWithin()
  }

  answered(answer: Answer): Promise<Leaving> {
    return this.#end(() => this.#store(answer))
  }

  /** The handler threw, or aborted its response. Rejects with the same error, for the framework to answer. */
  failed(error: unknown): Promise<Leaving> {
    return this.#end(async () => {
      await this.#open.conclude({ error })
      throw error
    })
  }

  /** The handler does not run, because its client was answered meanwhile. Releases the key. */
  giveBack(): Promise<void> {
    return this.#open.giveBack('its request was answered before the handler could begin')
  }

  /** Both, for a handler whose answer can be awaited. */
  async settle(handler: () => Promise<Answer>): Promise<Leaving> {
    const interrupted = new Promise<Leaving>((resolve) => this.onInterrupted(resolve))
    const handled = this.within(handler).then(
      (answer) => this.answered(answer),
      (error: unknown) => this.failed(error),
    )
    return Promise.race([interrupted, handled])
  }

  /** Calls back with the response if the attempt ends before the handler does. */
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

  /** The first end wins. */
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
    // The client gets it anyway; the attempt ends as `afterFailure` says.
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
