import { type Answer, checkAnswer } from '../core/answer.js'
import { isSimulatedCrash } from '../core/crash-points.js'
import { OncekeyError } from '../core/errors.js'
import type { FingerprintRequest } from '../core/fingerprint/fingerprint.js'
import { checkKeyRef, type KeyRef } from '../core/key.js'
import { type AfterFailure, type PolicyOptions, resolvePolicy } from '../core/policy.js'
import type { KeyClaim } from '../core/store.js'
import { claimKey, type Held, type Run, runOf, settleFailure, storeAnswer, whileHolding } from './held.js'
import { type Outcome, outcomeOf } from './outcome.js'
import type { EngineParts } from './parts.js'

export interface ExecuteOptions extends KeyRef, PolicyOptions {
  /** What the request asks for. A key that comes back with something else is a mismatch. `false` compares nothing. */
  fingerprint: FingerprintRequest | false
  /**
   * What becomes of the key when the work throws, crashes or loses its lease. There is no default: only the author of the
   * work knows whether it may run again.
   */
  afterFailure: AfterFailure
  /** Kept with the key, so that a worker can run the request again. Default: nothing is kept. */
  request?: Uint8Array
}

/** Claims the key; runs the work if it is ours to run, keeping the lease alive; stores the answer, or what `afterFailure` says. */
export async function execute<R extends Answer>(
  parts: EngineParts,
  options: ExecuteOptions,
  work: (run: Run) => Promise<R> | R,
): Promise<Outcome<R>> {
  checkOptions(options)
  const ref = checkKeyRef(options)
  const policy = resolvePolicy(options, parts.defaults)
  const claim: KeyClaim = {
    ...ref,
    owner: parts.random.uuid(),
    fingerprint: options.fingerprint === false ? null : parts.takeFingerprint(options.fingerprint),
    leaseMs: policy.leaseMs,
    retention: policy.retention,
    afterFailure: options.afterFailure,
    request: options.request ?? null,
    worker: false,
  }
  const since = parts.clock.monotonic()
  const verdict = await claimKey(parts, claim, since)
  if (verdict.kind !== 'execute') return outcomeOf(parts, ref, verdict)
  return whileHolding(parts, claim, policy, verdict, since, (held) => runWork(held, work))
}

function checkOptions({ afterFailure, request, fingerprint }: ExecuteOptions): void {
  if (fingerprint !== false && (typeof fingerprint !== 'object' || fingerprint === null)) {
    throw new OncekeyError('option_invalid', 'fingerprint says what the request asks for: pass its parts, or false to compare nothing.')
  }
  if (afterFailure !== 'rerun' && afterFailure !== 'store' && afterFailure !== 'park') {
    throw new OncekeyError(
      'option_invalid',
      `afterFailure is ${String(afterFailure)}: say 'rerun' if the work may run again after a crash, 'store' to replay the failure, ` +
        `or 'park' to stop the key for a person.`,
    )
  }
  if (request !== undefined && !(request instanceof Uint8Array)) {
    throw new OncekeyError('option_invalid', 'request is kept as bytes: pass a Uint8Array.')
  }
}

async function runWork<R extends Answer>(held: Held, work: (run: Run) => Promise<R> | R): Promise<Outcome<R>> {
  let answer: R
  try {
    answer = checkAnswer(await work(runOf(held)))
  } catch (error) {
    if (!isSimulatedCrash(error)) await settleFailure(held, error)
    throw error
  }
  return storeAnswer(held, answer)
}
