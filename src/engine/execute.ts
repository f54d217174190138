import type { Answer } from '../core/answer.js'
import { type Duration, durationMs } from '../core/duration.js'
import { OncekeyError } from '../core/errors.js'
import type { Fingerprint, FingerprintRequest } from '../core/fingerprint/fingerprint.js'
import { checkKeyRef, type KeyRef } from '../core/key.js'
import type { AfterFailure, Policy, PolicyOptions } from '../core/policy.js'
import type { KeyClaim } from '../core/store.js'
import { type Held, type Opened, openKey, withKey } from './held.js'
import type { Outcome } from './outcome.js'
import type { EngineParts } from './parts.js'

export interface ExecuteOptions extends KeyRef, PolicyOptions {
  /** What the request asks for. A key reused with something else is a mismatch. `false` compares nothing. */
  fingerprint: FingerprintRequest | false
  /**
   * What becomes of the key when the work throws, crashes or loses its lease. There is no default: only the author of the
   * work knows whether it may run again.
   */
  afterFailure: AfterFailure
  /** Stored with the key, so that a worker can run the request again. Default: nothing. */
  request?: Uint8Array
  /**
   * How long to wait for another holder: for its answer, or for the key if it is released. Costs a statement every 20 ms. Too low: clients
   * must retry although the answer was near. Too high: a waiting request ties up its client and memory. Default: no wait.
   */
  wait?: Duration
}

/** Claims the key; if this caller holds it, `perform` does the work. */
export async function execute<R extends Answer>(
  parts: EngineParts,
  options: ExecuteOptions,
  perform: (held: Held) => Promise<Outcome<R>>,
): Promise<Outcome<R>> {
  const checking = checkedClaim(parts, options)
  const { claim, policy, waitMs } = 'then' in checking ? await checking : checking
  return withKey(parts, claim, policy, waitMs, perform)
}

/** The same in two steps: then call `closeKey()`. */
export async function open(parts: EngineParts, options: ExecuteOptions): Promise<Opened> {
  const checking = checkedClaim(parts, options)
  const { claim, policy, waitMs } = 'then' in checking ? await checking : checking
  return openKey(parts, claim, policy, waitMs)
}

interface CheckedClaim {
  readonly claim: KeyClaim
  readonly policy: Policy
  readonly waitMs: number
}

/** Synchronous, unless the fingerprint of a large body takes several turns of the event loop. */
function checkedClaim(parts: EngineParts, options: ExecuteOptions): CheckedClaim | Promise<CheckedClaim> {
  checkOptions(options)
  const policy = parts.policyOf(options)
  const waitMs = options.wait === undefined ? 0 : durationMs(options.wait, 'wait')
  const checked = (taken: Fingerprint | null) => ({ claim: claimOf(parts, options, policy, taken), policy, waitMs })
  const fingerprint = options.fingerprint === false ? null : parts.takeFingerprint.inTurns(options.fingerprint)
  return fingerprint && 'then' in fingerprint ? fingerprint.then(checked) : checked(fingerprint)
}

/** Spelled out: on Node 20 each member added to an object spread takes more than a microsecond. */
function claimOf(parts: EngineParts, options: ExecuteOptions, policy: Policy, fingerprint: Fingerprint | null): KeyClaim {
  const { tenant, scope, key } = checkKeyRef(options)
  return {
    tenant,
    scope,
    key,
    owner: parts.random.uuid(),
    fingerprint,
    leaseMs: policy.leaseMs,
    retention: policy.retention,
    afterFailure: options.afterFailure,
    request: options.request ?? null,
    worker: false,
  }
}

function checkOptions({ afterFailure, request, fingerprint }: ExecuteOptions): void {
  if (fingerprint !== false && (typeof fingerprint !== 'object' || fingerprint === null)) {
    throw new OncekeyError('option_invalid', 'fingerprint must be the parts of the request, or false to compare nothing.')
  }
  if (afterFailure !== 'rerun' && afterFailure !== 'store' && afterFailure !== 'park') {
    throw new OncekeyError(
      'option_invalid',
      `afterFailure is ${String(afterFailure)}: pass 'rerun' if the work may run again after a crash, 'store' to replay the failure, ` +
        `or 'park' to stop the key for an operator.`,
    )
  }
  if (request !== undefined && !(request instanceof Uint8Array)) {
    throw new OncekeyError('option_invalid', 'request must be a Uint8Array.')
  }
}
