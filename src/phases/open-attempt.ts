import { AsyncLocalStorage } from 'node:async_hooks'
import type { Answer } from '../core/answer.js'
import { type ExecuteOptions, open } from '../engine/execute.js'
import { closeKey, type Held, runSpan, settleFailure } from '../engine/held.js'
import type { Outcome } from '../engine/outcome.js'
import type { EngineParts } from '../engine/parts.js'
import { Attempt } from './attempt.js'
import { type BodyOptions, concludeBody, type Ended } from './run-body.js'

/** Work that was claimed in one step and is concluded in another, for callers that cannot pass it as a function. */
export interface OpenAttempt<Tx> {
  readonly attempt: Attempt<Tx>
  /** Calls the work in the context of its run: its spans nest, and what comes from it is known. */
  within<T>(work: () => T): T
  /** Whether the caller is in that context. */
  isWithin(): boolean
  /** Gives the key back, because the work was not begun. Instead of `conclude()`. */
  giveBack(reason: string): Promise<void>
  /** Stores what the work came to, and ends the attempt. To be called once. */
  conclude(ended: Ended<Answer>): Promise<Outcome<Answer>>
}

/** Claims the key of the work; or says what became of the claim instead. */
export async function openAttempt<Tx>(
  parts: EngineParts,
  options: ExecuteOptions,
  bodyOptions: BodyOptions<Tx>,
): Promise<OpenAttempt<Tx> | { readonly outcome: Exclude<Outcome<Answer>, { kind: 'executed' }> }> {
  const opened = await open(parts, options)
  if ('outcome' in opened) return opened
  const { held } = opened
  const attempt = new Attempt<Tx>(held, bodyOptions.steps)
  const span = parts.span && openSpan(held)
  return {
    attempt,
    within(work) {
      const context = { attempt, outer: contexts.getStore() }
      return span ? span.within(() => contexts.run(context, work)) : contexts.run(context, work)
    },
    isWithin() {
      for (let context = contexts.getStore(); context; context = context.outer) if (context.attempt === attempt) return true
      return false
    },
    async giveBack(reason) {
      await settleFailure(held, { afterFailure: 'rerun', error: new Error(reason), dueInMs: 0 })
      closeKey(held)
      span?.end()
    },
    async conclude(ended) {
      try {
        const outcome = await concludeBody(held, attempt, ended, bodyOptions)
        span?.end()
        return outcome
      } catch (error) {
        span?.fail(error)
        throw error
      } finally {
        closeKey(held)
      }
    },
  }
}

interface Context {
  readonly attempt: object
  /** Of a layer in front. */
  readonly outer: Context | undefined
}

/** Adds 3 µs to a request on Node 20, and nothing that can be measured on 24 and later. */
const contexts = new AsyncLocalStorage<Context>()

/** A span takes a function: this one lasts until it is ended. */
function openSpan(held: Held) {
  let within = <T>(work: () => T): T => work()
  let end = () => {}
  let fail = (_: unknown) => {}
  runSpan(held, () => {
    within = AsyncLocalStorage.snapshot()
    return new Promise<void>((resolve, reject) => {
      end = resolve
      fail = reject
    })
  }).catch(() => {})
  return { within, end, fail }
}
