import { type Answer, checkAnswer, type Reply, withinCap } from '../core/answer.js'
import { OncekeyError } from '../core/errors.js'
import type { Fingerprint, FingerprintPart, FingerprintRequest } from '../core/fingerprint/fingerprint.js'
import { checkKeyRef, type KeyRef } from '../core/key.js'
import { type AfterFailure, type Policy, type PolicyOptions, resolvePolicy } from '../core/policy.js'
import type { KeyClaim, KeyFinish, Verdict, WriteResult } from '../core/store.js'
import { outcomeUnknown, workFailed } from '../core/system-answers.js'
import type { EngineParts } from './create-once.js'
import { type Holding, leaseLost } from './lease-keeper.js'
import { type Patience, patiently } from './patience.js'

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

/** One holder's attempt at a key, as the work sees it. */
export interface Run extends KeyRef {
  /** The key's id, for rows of the user's own that point at it. */
  readonly id: string
  /** This life of the key. */
  readonly incarnation: string
  /** 1 for the first attempt. Higher means that an earlier one crashed, threw or lost its lease. */
  readonly attempt: number
  /** For downstream stores that can refuse a holder which was replaced. Equal to the attempt, but means something else. */
  readonly fence: number
  /** Aborts when the key is lost or may be. */
  readonly signal: AbortSignal
}

type BodyOf<R> = R extends Reply<infer Body> ? Body : never

export type Outcome<R extends Answer = Reply> =
  /** The work ran, now. `stored: false`: the store could not be told, and `error` says why. */
  | { readonly kind: 'executed'; readonly answer: Reply<BodyOf<R>>; readonly stored: true }
  | { readonly kind: 'executed'; readonly answer: Reply<BodyOf<R>>; readonly stored: false; readonly error: unknown }
  /** The work ran before; this is its answer, byte for byte. `failed`: it is an error that the system or a person stored. */
  | { readonly kind: 'replayed'; readonly answer: Reply<BodyOf<R>>; readonly state: 'complete' | 'failed' }
  | { readonly kind: 'in-progress'; readonly retryAfterMs: number }
  | { readonly kind: 'mismatch'; readonly part: FingerprintPart }
  | { readonly kind: 'parked'; readonly answer: Answer }

/** A claim is repeated when its connection breaks, but a request must not wait out an outage. */
const claimTries = 3

/** Claims the key; runs the work if it is ours to run, keeping the lease alive; stores the answer, or what `afterFailure` says. */
export async function execute<R extends Answer>(
  parts: EngineParts,
  options: ExecuteOptions,
  work: (run: Run) => Promise<R> | R,
): Promise<Outcome<R>> {
  const ref = checkKeyRef(options)
  const policy = resolvePolicy(options, parts.defaults)
  const fingerprint = options.fingerprint === false ? null : parts.takeFingerprint(options.fingerprint)
  const claim = claimOf(ref, policy, fingerprint, options, parts.random.uuid())

  const since = parts.clock.monotonic()
  const verdict = await claimKey(parts, claim, since)
  switch (verdict.kind) {
    case 'execute':
      return runWork(parts, claim, policy, verdict, since, work)
    case 'replay':
      parts.report(ref, { type: 'replayed', state: verdict.state })
      return { kind: 'replayed', answer: verdict.answer as Reply<BodyOf<R>>, state: verdict.state }
    case 'in-progress':
      parts.report(ref, { type: 'met-in-progress', retryAfterMs: verdict.retryAfterMs })
      return { kind: 'in-progress', retryAfterMs: verdict.retryAfterMs }
    case 'mismatch':
      parts.report(ref, { type: 'mismatched', part: verdict.part })
      return { kind: 'mismatch', part: verdict.part }
    case 'parked':
      parts.report(ref, { type: 'met-parked' })
      return { kind: 'parked', answer: verdict.answer }
  }
}

function claimOf(ref: KeyRef, policy: Policy, fingerprint: Fingerprint | null, options: ExecuteOptions, owner: string): KeyClaim {
  const { afterFailure, request } = options
  if (afterFailure !== 'rerun' && afterFailure !== 'store' && afterFailure !== 'park') {
    throw new OncekeyError(
      'option_invalid',
      `afterFailure is ${String(afterFailure)}: say 'rerun' if the work may run again after a crash, 'store' to replay the failure, ` +
        `or 'park' to stop the key for a person.`,
    )
  }
  if (request !== undefined && !(request instanceof Uint8Array))
    throw new OncekeyError('option_invalid', 'request is kept as bytes: pass a Uint8Array.')
  const { leaseMs, retention } = policy
  return { ...ref, owner, fingerprint, leaseMs, retention, afterFailure, request: request ?? null, worker: false }
}

/** The same claim may be sent several times: by its token it knows itself, so a lost acknowledgement costs a repeat. */
async function claimKey(parts: EngineParts, claim: KeyClaim, since: number): Promise<Verdict> {
  const { store, storeTimeoutMs } = parts
  // Too late to be used, but it holds the key: give it back rather than let every retry wait out the lease.
  const late = (verdict: Verdict) => {
    if (verdict.kind === 'execute') store.keyRelease({ lease: verdict.lease, reason: 'claimed too late' }).catch(() => {})
  }
  return patiently(() => store.keyClaim(claim), { until: since + storeTimeoutMs, tries: claimTries }, parts, late)
}

async function runWork<R extends Answer>(
  parts: EngineParts,
  claim: KeyClaim,
  policy: Policy,
  { lease }: Extract<Verdict, { kind: 'execute' }>,
  since: number,
  work: (run: Run) => Promise<R> | R,
): Promise<Outcome<R>> {
  const { tenant, scope, key } = claim
  const { id, incarnation, fence } = lease
  const { leaseMs, maxRunMs, retention } = policy
  parts.report(claim, { type: 'executing', attempt: fence })
  const holding = parts.leaseKeeper.hold(claim, { lease, leaseMs, maxRunMs, since })
  try {
    let answer: R
    try {
      answer = checkAnswer(await work({ tenant, scope, key, id, incarnation, attempt: fence, fence, signal: holding.signal }))
    } catch (error) {
      await settleFailure(parts, claim, { lease, retention }, holding, error)
      throw error
    }
    return await storeAnswer(parts, claim, { lease, state: 'complete', answer, retention }, holding)
  } finally {
    holding.letGo()
  }
}

async function storeAnswer<R extends Answer>(
  parts: EngineParts,
  ref: KeyRef,
  finish: KeyFinish & { answer: R },
  holding: Holding,
): Promise<Outcome<R>> {
  const answer = finish.answer as Reply<BodyOf<R>>
  if (holding.isLost()) throw leaseLost()
  const stored = { ...finish, answer: withinCap(finish.answer, parts.maxAnswerBytes) }
  let result: WriteResult
  try {
    result = await patiently(() => parts.store.keyFinish(stored), whileHeld(parts, holding), parts)
  } catch (error) {
    parts.report(ref, { type: 'answer-not-stored', error })
    return { kind: 'executed', answer, stored: false, error }
  }
  if (result === 'lost') {
    parts.report(ref, { type: 'lease-lost' })
    throw leaseLost()
  }
  parts.report(ref, { type: 'finished', status: answer.status })
  return { kind: 'executed', answer, stored: true }
}

/** The work threw. The caller gets its error in any case; what a retry gets is for `afterFailure` to say. */
async function settleFailure(
  parts: EngineParts,
  claim: KeyClaim,
  { lease, retention }: Pick<KeyFinish, 'lease' | 'retention'>,
  holding: Holding,
  error: unknown,
): Promise<void> {
  if (holding.isLost()) return
  const { store, report } = parts
  const reason = reasonOf(error)
  const settle = {
    rerun: { type: 'released', write: () => store.keyRelease({ lease, reason }) },
    store: { type: 'failed', write: () => store.keyFinish({ lease, state: 'failed', answer: workFailed, retention, reason }) },
    park: { type: 'parked', write: () => store.keyPark({ lease, answer: outcomeUnknown, reason }) },
  } as const
  const { type, write } = settle[claim.afterFailure]
  try {
    const result = await patiently(write, whileHeld(parts, holding), parts)
    report(claim, result === 'done' ? { type, error } : { type: 'lease-lost' })
  } catch (storeError) {
    // The lease runs out by itself, and the row remembers `afterFailure`: the next claim settles it.
    report(claim, { type: 'answer-not-stored', error: storeError })
  }
}

/** Once the work is done there is no hurry but the lease's: keep trying while it is certain. */
function whileHeld({ clock, storeTimeoutMs }: EngineParts, holding: Holding): Patience {
  return { until: Math.max(holding.certainUntil(), clock.monotonic() + storeTimeoutMs), tries: Number.POSITIVE_INFINITY }
}

/** A line for the people who look at the key, of characters that any store can keep. */
function reasonOf(error: unknown): string {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : 'the work threw something that is not an Error'
  return text.slice(0, 500).replace(/[\0\p{Surrogate}]/gu, '\uFFFD')
}
