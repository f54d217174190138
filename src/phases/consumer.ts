import { type Answer, checkAnswer, type Reply, reply } from '../core/answer.js'
import type { Duration } from '../core/duration.js'
import { OncekeyError } from '../core/errors.js'
import type { FingerprintRequest } from '../core/fingerprint/fingerprint.js'
import { checkName } from '../core/key.js'
import { resolvePolicy } from '../core/policy.js'
import { type Retention, retention } from '../core/retention.js'
import type { StepStore } from '../core/store.js'
import type { Outcome } from '../engine/outcome.js'
import type { EngineParts } from '../engine/parts.js'
import { runLocal } from './local.js'
import { inboxClaim, type WithinOptions, type WithinOutcome, within } from './within.js'

/** What a broker or the sender of a webhook delivers. What else it has is the work's to see. */
export interface Message<Body = unknown> {
  /** The same in every delivery of this message, and in no other message of the tenant's. */
  readonly id: string
  readonly body: Body
}

export interface ConsumerOptions<M extends Message = Message> {
  /**
   * Whose message it is: a name, or a function of the message. Messages of two tenants never meet, even if they have one id. Take it from
   * what is signed or authenticated. `'single'` says that there is one tenant only.
   */
  tenant: string | ((message: M) => string)
  /**
   * How long a message is remembered that is done. Too low: a late redelivery does the work again. Too high: a larger table. Default
   * `retention.webhook`, 7 days, whatever `createOnce` was told: brokers and senders come back after days.
   */
  retention?: Retention
  /** As in the policy. Default: that of `createOnce`. */
  retentionFloor?: Duration
  /**
   * What must be equal in every delivery of an id; anything else is a `mismatch`, and the work does not run. Default: nothing but the id is
   * compared, because senders write an event anew for a redelivery.
   */
  fingerprint?: (message: M) => FingerprintRequest
}

/** A named piece of work that is done once for each message. */
export interface Consumer<Tx, M extends Message = Message, R extends Answer = Reply<undefined>> {
  readonly name: string
  /**
   * Does the work in a transaction of its own, once: a delivery that comes again is `replayed`, one that comes meanwhile waits for the first.
   * If the work throws, nothing is left, and the message may come again. Acknowledge the message when this returns.
   */
  readonly handle: (message: M) => Promise<Outcome<R>>
  /** The same in a transaction that you have already. It counts as done when, and only if, you commit. */
  within(tx: Tx, message: M): Promise<WithinOutcome<R>>
}

// biome-ignore lint/suspicious/noConfusingVoidType: a consumer's work often returns nothing.
export type ConsumerWork<Tx, M extends Message, R extends Answer> = (tx: Tx, message: M) => Promise<R | void> | R | void

export function defineConsumer<Tx, M extends Message, R extends Answer>(
  parts: EngineParts,
  store: StepStore<Tx>,
  name: string,
  options: ConsumerOptions<M>,
  work: ConsumerWork<Tx, M, R>,
): Consumer<Tx, M, R> {
  checkName('scope_invalid', 'name of the consumer', name)
  const { tenant, fingerprint, ...given } = options
  const policy = { ...given, retention: given.retention ?? retention.webhook }
  if (typeof tenant !== 'string' && typeof tenant !== 'function') {
    throw new OncekeyError(
      'option_invalid',
      `tenant is ${String(tenant)}: it is a function of the message that says whose it is, or a name, such as 'single' if there is one only.`,
    )
  }
  if (fingerprint !== undefined && typeof fingerprint !== 'function') {
    throw new OncekeyError('option_invalid', `fingerprint is ${String(fingerprint)}: it is a function of the message.`)
  }
  // Now, so that a wrong option is an error at start.
  const { maxRunMs } = resolvePolicy(policy, parts.defaults)

  return {
    name,
    handle: async (message) => {
      const claim = await inboxClaim(parts, keyOf(message))
      return runLocal(parts, store, { claim, maxRunMs }, (tx) => done(tx, message))
    },
    within: async (tx, message) => within(parts, store, tx, keyOf(message), () => done(tx, message)),
  }

  function keyOf(message: M): WithinOptions {
    const ref = { tenant: typeof tenant === 'function' ? tenant(message) : tenant, scope: name, key: message.id }
    return { ...policy, ...ref, ...(fingerprint && { fingerprint: fingerprint(message) }) }
  }

  async function done(tx: Tx, message: M): Promise<R> {
    const answer = checkAnswer((await work(tx, message)) ?? (reply(204) as unknown as R))
    if (answer.status < 300) return answer
    // Stored, it would be told to every redelivery: the sender tries in vain until it gives up.
    throw new OncekeyError(
      'answer_invalid',
      `${name} returned a ${answer.status}, but what a consumer returns says that the message is done, and is a 2xx. To have the message ` +
        'come again, throw.',
    )
  }
}
