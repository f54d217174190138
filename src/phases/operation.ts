import type { Answer } from '../core/answer.js'
import { durationMs } from '../core/duration.js'
import { isStoreTrouble, OncekeyError } from '../core/errors.js'
import { checkKeyRef, type KeyRef, keyId } from '../core/key.js'
import type { KeyClaim, StepStore } from '../core/store.js'
import { outcomeUnknown } from '../core/system-answers.js'
import { type Held, settleFailure, withKey } from '../engine/held.js'
import type { Outcome } from '../engine/outcome.js'
import type { EngineParts } from '../engine/parts.js'
import { patiently } from '../engine/patience.js'
import { admission, type EnqueueOutcome, type LocalOptions, type OperationOutcome, type RunRequest } from './admission.js'
import { enqueue, withId } from './enqueue.js'
import { type InputOf, inputFromBytes, type OutputOf, type StandardSchema, validated } from './input.js'
import type { OperationRun } from './operation-run.js'
import { runBody } from './run-body.js'

export interface OperationOptions<Schema extends StandardSchema | undefined = undefined> extends LocalOptions<Schema> {
  /** Stores an error that the body throws, and replays it, as Stripe's first API does. Default false: a retry resumes. */
  storeErrors?: boolean
}

/** A named, registered piece of work that HTTP, a queue consumer or a worker can run. */
export interface Operation<Input, R extends Answer> {
  readonly name: string
  /** Whether it makes a key from the input for callers that bring none. */
  readonly makesKey: boolean
  /** The longest that one attempt may hold its key. */
  readonly maxRunMs: number
  run(request: RunRequest<Input>): Promise<OperationOutcome<R>>
  /**
   * Leaves the request to workers, and returns at once. Validation, replays and mismatches are as with `run`; `wait` and `storeErrors` of
   * the request mean nothing here.
   */
  enqueue(request: RunRequest<Input>): Promise<EnqueueOutcome<R>>
  /**
   * Continues a key without a holder, from the request that was stored with it: what a worker does. Once workers have tried
   * `maxAttempts` times, the key is parked. Default: no limit.
   */
  resume(ref: { readonly tenant: string; readonly key: string }, options?: { readonly maxAttempts?: number }): Promise<OperationOutcome<R>>
}

interface AttemptOptions {
  readonly storeErrors?: boolean | undefined
  readonly waitMs?: number
  readonly maxAttempts?: number | undefined
}

export function defineOperation<Tx, Schema extends StandardSchema | undefined, R extends Answer>(
  parts: EngineParts,
  store: StepStore<Tx>,
  name: string,
  options: OperationOptions<Schema>,
  body: (run: OperationRun<Tx>, input: OutputOf<Schema>) => Promise<R> | R,
): Operation<InputOf<Schema>, R> {
  const { policy, admit, newClaim } = admission(parts, name, options)

  return {
    name,
    makesKey: options.key !== undefined,
    maxRunMs: policy.maxRunMs,

    async run(request) {
      const { wait, storeErrors = options.storeErrors } = request
      const waitMs = wait === undefined ? 0 : durationMs(wait, 'wait')
      const admitted = await admit<R>(request)
      return 'outcome' in admitted ? admitted.outcome : attempt(admitted.claim, { storeErrors, waitMs })
    },

    async enqueue(request) {
      const admitted = await admit<R>(request)
      if (!('outcome' in admitted)) return enqueue(parts, admitted.claim)
      return admitted.ref ? withId(keyId(admitted.ref), admitted.outcome) : admitted.outcome
    },

    async resume({ tenant, key }, { maxAttempts } = {}) {
      const ref = checkKeyRef({ tenant, scope: name, key })
      if (!(await hasRequest(ref))) throw nothingStored(key)
      const claim = { ...newClaim(), ...ref, fingerprint: null, request: null, worker: true }
      return attempt(claim, { storeErrors: options.storeErrors, maxAttempts })
    },
  }

  /** One that cannot be opened counts: the claim says why, and lets the key rest. */
  async function hasRequest(ref: KeyRef): Promise<boolean> {
    const patience = { until: parts.clock.monotonic() + parts.storeTimeoutMs, tries: 3 }
    try {
      const record = await patiently((limit) => parts.store.keyRead(ref, limit, { request: false }), patience, parts)
      return record?.hasRequest === true
    } catch (error) {
      if (isStoreTrouble(error)) throw error
      return true
    }
  }

  function nothingStored(key: string): OncekeyError {
    return new OncekeyError('input_invalid', `There is no stored request to resume for key ${key} of ${name}.`)
  }

  async function attempt(
    claim: KeyClaim,
    { storeErrors = false, waitMs = 0, maxAttempts = Number.POSITIVE_INFINITY }: AttemptOptions,
  ): Promise<OperationOutcome<R>> {
    return withKey(parts, claim, policy, waitMs, async (held) => {
      const { attempts, request } = held.before
      if (attempts > maxAttempts) return giveUp(held)
      // A store that fails is no error of the operation's: it resumes.
      const afterFailure = (error: unknown) => {
        if (isStoreTrouble(error)) return 'rerun'
        return storeErrors ? 'store' : attempts >= maxAttempts ? 'park' : 'rerun'
      }
      return runBody<Tx, R>(held, { steps: () => store, afterFailure }, async ({ run }) => {
        // What was first received is what counts, also when a retry sent something that is merely equal.
        const received = request ?? claim.request
        if (!received) throw nothingStored(claim.key)
        const input = await validated(options.input as Schema, inputFromBytes(received))
        if (!input.issues) return body(run, input.value)
        throw new OncekeyError('input_invalid', `The stored input of this key does not fit the schema of ${name} any more.`)
      })
    })
  }

  /** The last attempt ended without a word: perhaps it is the work that ends the process. */
  async function giveUp(held: Held): Promise<Outcome<R>> {
    const error = new OncekeyError('attempts_exhausted', `Workers tried ${name} ${held.before.attempts - 1} times, and it did not end.`)
    await settleFailure(held, { afterFailure: 'park', error })
    return { kind: 'parked', answer: outcomeUnknown }
  }
}
