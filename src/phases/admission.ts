import type { Answer } from '../core/answer.js'
import type { Duration } from '../core/duration.js'
import { OncekeyError } from '../core/errors.js'
import type { FingerprintRequest } from '../core/fingerprint/fingerprint.js'
import { checkKeyRef, checkName, type KeyRef } from '../core/key.js'
import { type Policy, type PolicyOptions, resolvePolicy } from '../core/policy.js'
import type { KeyClaim } from '../core/store.js'
import { type Outcome, outcomeOf } from '../engine/outcome.js'
import type { EngineParts } from '../engine/parts.js'
import { patiently } from '../engine/patience.js'
import { type Issue, inputBytes, type OutputOf, type StandardSchema, validated } from './input.js'

export interface LocalOptions<Schema extends StandardSchema | undefined = undefined> extends PolicyOptions {
  /** Any Standard Schema (zod, valibot, arktype). Default: the input is taken as it comes. */
  input?: Schema
  /**
   * The key, made from the input's own identity ("the charge of order 4127"), for callers that bring none. Only for operations that
   * have such an identity: two honest top-ups of 20 euros have not, and would become one.
   */
  key?: (input: OutputOf<Schema>) => string
}

export interface RunRequest<Input> {
  readonly tenant: string
  /** What the client sent. May be left out if the operation makes its key from the input. */
  readonly key?: string
  readonly input: Input
  /**
   * What the request asked for, if that is more than its input: HTTP adapters pass method, path, query, media type and raw body. A key
   * that comes back with something else is a mismatch. Default: the input.
   */
  readonly fingerprint?: FingerprintRequest
  /** Why the input could not even be read. It counts as input that does not fit the schema, and is not validated. Default: it could. */
  readonly issues?: readonly Issue[]
  /** As the operation's option of that name, for this run. Local work has none: it leaves nothing behind. Default: what the operation says. */
  readonly storeErrors?: boolean
  /**
   * How long to wait for another holder of the key, as in `once.execute`. Local work has no use for it: its duplicates wait on
   * the unique index for the transaction to end. Default: not at all.
   */
  readonly wait?: Duration
}

export type OperationOutcome<R extends Answer> =
  | Outcome<R>
  /** The input does not fit the schema, and there is no answer to replay: nothing was stored or changed, the same key may come again. */
  | { readonly kind: 'invalid'; readonly issues: readonly Issue[] }

/** What a request comes to that is left to workers. */
export type EnqueueOutcome<R extends Answer> =
  /** The key waits for a worker. `id` names it to its tenant; the answer will be of this incarnation. */
  | { readonly kind: 'enqueued'; readonly id: string; readonly incarnation: string }
  /** It waits, or is being worked on, since an earlier request. */
  | { readonly kind: 'in-progress'; readonly id: string; readonly retryAfterMs: number }
  | Exclude<OperationOutcome<R>, { kind: 'executed' | 'in-progress' }>

/** A request before it may run: a claim with its input; or an answer already, and where there is a key at all, whose it is of. */
type Admitted<R extends Answer, Input> =
  | { readonly claim: KeyClaim; readonly input: Input }
  | { readonly outcome: Exclude<OperationOutcome<R>, { kind: 'executed' }>; readonly ref: KeyRef }
  | { readonly outcome: Extract<OperationOutcome<R>, { kind: 'invalid' }>; readonly ref?: undefined }

export interface Admission<Schema extends StandardSchema | undefined> {
  readonly policy: Policy
  /** What a request comes to before it may run. */
  admit<R extends Answer>(request: RunRequest<unknown>): Promise<Admitted<R, OutputOf<Schema>>>
  newClaim(): Pick<KeyClaim, 'owner' | 'leaseMs' | 'retention' | 'afterFailure' | 'worker'>
}

/** The way in, for operations and local work alike: validation, key, fingerprint. */
export function admission<Schema extends StandardSchema | undefined>(
  parts: EngineParts,
  name: string,
  options: LocalOptions<Schema>,
): Admission<Schema> {
  checkName('scope_invalid', 'name of the operation', name)
  const policy = resolvePolicy(options, parts.defaults)

  return { policy, admit, newClaim }

  /** A crash is always resumed: whether it may be is what phases and calls are for. */
  function newClaim() {
    const { leaseMs, retention } = policy
    return { owner: parts.random.uuid(), leaseMs, retention, afterFailure: 'rerun', worker: false } as const
  }

  async function admit<R extends Answer>(request: RunRequest<unknown>): Promise<Admitted<R, OutputOf<Schema>>> {
    const { tenant, key: given, input, issues } = request
    const checked = issues ? { issues } : await validated(options.input as Schema, input)
    const key = given ?? (checked.issues ? undefined : options.key?.(checked.value))
    if (key === undefined) {
      if (checked.issues) return { outcome: { kind: 'invalid', issues: checked.issues } }
      throw new OncekeyError(
        'key_invalid',
        `${name} needs a key: pass the client's, or give the operation a \`key\` that makes one from the input.`,
      )
    }
    const ref = checkKeyRef({ tenant, scope: name, key })
    const fingerprint = await parts.takeFingerprint.inTurns(request.fingerprint ?? { value: input ?? null })
    // What could not be read cannot be kept either; nothing will be.
    const claim: KeyClaim = { tenant, scope: name, key, fingerprint, request: issues ? null : inputBytes(input), ...newClaim() }
    if (!checked.issues) return { claim, input: checked.value }
    // A known key replays or mismatches, even if the schema was tightened since. Only one that would have to run is invalid.
    const patience = { until: parts.clock.monotonic() + parts.storeTimeoutMs, tries: 3 }
    const known = await patiently((limit) => parts.store.keyPeek(claim, limit), patience, parts)
    return { ref, outcome: known ? outcomeOf<R>(parts, claim, known) : { kind: 'invalid', issues: checked.issues } }
  }
}
