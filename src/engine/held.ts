import type { Answer, BodyOf, Reply } from '../core/answer.js'
import { crashPoint } from '../core/crash-points.js'
import type { OncekeyError } from '../core/errors.js'
import { checkName, derivedKey } from '../core/key.js'
import type { AfterFailure, Policy } from '../core/policy.js'
import type { Lease } from '../core/record.js'
import { retryDelayMs } from '../core/retry-delay.js'
import { storableText } from '../core/storable-text.js'
import type { KeyClaim, KeyFinish, Limit, StepRecord, Verdict, WriteResult } from '../core/store.js'
import { outcomeUnknown, workFailed } from '../core/system-answers.js'
import { isError, namedThrownText } from '../core/thrown-text.js'
import { type Claimed, claimKey } from './claim.js'
import { type Holding, leaseLost } from './lease-keeper.js'
import { type Outcome, outcomeOf } from './outcome.js'
import type { EngineParts } from './parts.js'
import { type Patience, patiently } from './patience.js'
import type { Underway } from './running-work.js'
import type { SpanAttributes } from './telemetry.js'

/** One holder's attempt at a key, as the work sees it. */
export interface Run {
  readonly tenant: string
  readonly scope: string
  /** What the client sent. */
  readonly idempotencyKey: string
  /** The key's id, for rows of the user's own that point at it. */
  readonly id: string
  /** This life of the key. */
  readonly incarnation: string
  /** 1 for the first attempt. Higher means that an earlier one crashed, threw or lost its lease. */
  readonly attempt: number
  /** For downstream stores that can refuse a stale holder. Equal to the attempt, but means something else. */
  readonly fence: number
  /** Aborts when the lease is lost or in doubt. */
  readonly signal: AbortSignal
  /**
   * A key for a downstream call: the same for every attempt at this life of the key, different after expiry and reuse. Never the client's own.
   */
  key(name: string): string
}

/** A key that this process holds, with what is needed to renew, finish and release it. */
export interface Held {
  readonly parts: EngineParts
  readonly claim: KeyClaim
  readonly policy: Policy
  readonly lease: Lease
  readonly holding: Holding
  /** On the monotonic clock. */
  readonly startedAt: number
  /** What earlier attempts at this life of the key left. */
  readonly before: Omit<Execution, 'kind' | 'lease'>
  readonly underway: Underway
}

/** A held key, to be followed by `closeKey()`; or the outcome of a claim that does not execute. */
export type Opened = { readonly held: Held } | { readonly outcome: Exclude<Outcome<Answer>, { kind: 'executed' }> }

/** Claims the key, and starts its heartbeats. */
export async function openKey(parts: EngineParts, claim: KeyClaim, policy: Policy, waitMs: number): Promise<Opened> {
  const underway = new KeyUnderway(claimKey(parts, claim, waitMs))
  parts.running.begin(underway)
  try {
    const { verdict, since } = await underway.claiming
    if (verdict.kind !== 'execute') return { outcome: outcomeOf(parts, claim, verdict) }
    const { lease } = verdict
    const { leaseMs, maxRunMs } = policy
    reportExecuting(parts, claim, verdict)
    const startedAt = parts.clock.monotonic()
    const holding = parts.leaseKeeper.hold(claim, { lease, leaseMs, maxRunMs, since })
    underway.held = { parts, claim, policy, lease, holding, startedAt, before: verdict, underway }
    return { held: underway.held }
  } finally {
    if (!underway.held) parts.running.end(underway)
  }
}

/** Ends the attempt: its heartbeats stop. */
export function closeKey({ parts, holding, underway }: Held): void {
  holding.letGo()
  parts.running.end(underway)
}

/** Claims the key to do `work`. */
export async function withKey<R extends Answer>(
  parts: EngineParts,
  claim: KeyClaim,
  policy: Policy,
  waitMs: number,
  work: (held: Held) => Promise<Outcome<R>>,
): Promise<Outcome<R>> {
  const opened = await openKey(parts, claim, policy, waitMs)
  if ('outcome' in opened) return opened.outcome as Outcome<R>
  const { held } = opened
  try {
    return await runSpan(held, () => work(held))
  } finally {
    closeKey(held)
  }
}

export function runSpan<T>({ parts: { span }, claim, lease, before }: Held, work: () => Promise<T>): Promise<T> {
  return span ? span('oncekey.run', runAttributes(claim, { lease, takenOver: before.takenOver }), work) : work()
}

/** A key from its claim to its end, for a process that stops. */
class KeyUnderway implements Underway {
  /** Undefined while it is being claimed. */
  held: Held | undefined

  constructor(readonly claiming: Promise<Claimed>) {}

  async abandon(error: OncekeyError): Promise<void> {
    if (this.held) await abandon(this.held, error)
    // The claim may still get the key.
    else await this.claiming.catch(() => {})
  }
}

/** The work runs on until it notices the abort, but can store nothing more, as if it had crashed. */
async function abandon(held: Held, error: OncekeyError): Promise<void> {
  const settled = settleFailure(held, { afterFailure: held.claim.afterFailure, error, dueInMs: 0 })
  held.holding.giveUp(error)
  await settled
}

type Execution = Extract<Verdict, { kind: 'execute' }>

export function reportExecuting({ report }: EngineParts, claim: KeyClaim, { lease, takenOver, recoveryPoint }: Execution): void {
  report(claim, { type: 'executing', attempt: lease.fence, takenOver, recoveryPoint, by: claim.worker ? 'worker' : 'request' })
}

export function runAttributes(
  { tenant, scope, key, worker }: KeyClaim,
  { lease, takenOver }: Pick<Execution, 'lease' | 'takenOver'>,
): SpanAttributes {
  return {
    'oncekey.tenant': tenant,
    'oncekey.scope': scope,
    'oncekey.key': key,
    'oncekey.attempt': lease.fence,
    'oncekey.taken_over': takenOver,
    'oncekey.by': worker ? 'worker' : 'request',
  }
}

/** How long a run has taken so far. */
export function ranForMs({ parts, startedAt }: Held): number {
  return parts.clock.monotonic() - startedAt
}

const holdingOf = Symbol('the holding of a run')

/**
 * Built lazily, but an ordinary property, so that wrapping or copying a run works. Shared by all runs: with its own getter each run would
 * have its own hidden class in V8.
 */
const signalProperty: PropertyDescriptor = {
  enumerable: true,
  get(this: HeldRun) {
    return this[holdingOf].signal
  },
}

/** A run of a key that this process holds. */
export class HeldRun implements Run {
  readonly tenant: string
  readonly scope: string
  readonly idempotencyKey: string
  readonly id: string
  readonly incarnation: string
  readonly attempt: number
  readonly fence: number
  declare readonly signal: AbortSignal
  declare readonly [holdingOf]: Holding

  constructor({ claim, lease, holding }: Held) {
    this.tenant = claim.tenant
    this.scope = claim.scope
    this.idempotencyKey = claim.key
    this.id = lease.id
    this.incarnation = lease.incarnation
    this.attempt = lease.fence
    this.fence = lease.fence
    Object.defineProperty(this, holdingOf, { value: holding })
    Object.defineProperty(this, 'signal', signalProperty)
  }

  /** Bound: it may be detached from the run. */
  readonly key = (name: string) => derivedKey(this.incarnation, checkName('step_name_invalid', 'name of a derived key', name))
}

/** Once the work is done, retry until the lease is no longer certain. */
export function whileCertain({ parts: { clock, storeTimeoutMs }, holding }: Held): Patience {
  const until = Math.max(holding.certainUntil(), clock.monotonic() + storeTimeoutMs)
  return { until, tries: Number.POSITIVE_INFINITY, tryMs: storeTimeoutMs }
}

/** Stores the answer of the work. Throws if the key is lost already. */
export async function storeAnswer<R extends Answer>(held: Held, given: R, steps: readonly StepRecord[] = []): Promise<Outcome<R>> {
  const { parts, claim, lease, policy, holding } = held
  if (holding.isLost()) throw leaseLost()
  const finish: KeyFinish = { lease, state: 'complete', answer: parts.keep(claim, given), retention: policy.retention, steps }
  const answer = given as Reply<BodyOf<R>>
  const executed = { kind: 'executed', answer, incarnation: lease.incarnation } as const
  crashPoint('finish:before')
  holding.ending()
  let result: WriteResult
  try {
    result = await patiently((limit) => parts.store.keyFinish(finish, limit), whileCertain(held), parts)
  } catch (error) {
    parts.report(claim, { type: 'answer-not-stored', error, durationMs: ranForMs(held) })
    return { ...executed, stored: false, error }
  }
  crashPoint('finish:after')
  if (result === 'lost') {
    holding.tellLost()
    throw leaseLost()
  }
  parts.report(claim, { type: 'finished', status: answer.status, durationMs: ranForMs(held), committed: true })
  return { ...executed, stored: true }
}

export interface Failure {
  /** What a retry gets. */
  readonly afterFailure: AfterFailure
  readonly error: unknown
  /** Results not committed yet. */
  readonly steps?: readonly StepRecord[]
  /** The call whose outcome is in question, for the operator who looks at a parked key. */
  readonly step?: string | undefined
  /** How long workers leave the key alone. Default: backoff. */
  readonly dueInMs?: number
}

/** Settles a failed attempt. The caller gets the error anyway. */
export async function settleFailure(held: Held, { afterFailure, error, steps = [], step, ...failure }: Failure): Promise<void> {
  const { parts, claim, lease, policy, holding } = held
  if (holding.isLost()) return
  const { store, report } = parts
  const { retention } = policy
  const reason = reasonOf(error)
  const { dueInMs = retryDelayMs(held.before.attempts, parts.random) } = failure
  holding.ending()
  const settle = {
    rerun: { type: 'released', write: (limit: Limit) => store.keyRelease({ lease, reason, dueInMs, steps }, limit) },
    store: {
      type: 'failed',
      write: (limit: Limit) => store.keyFinish({ lease, state: 'failed', answer: workFailed, retention, reason, steps }, limit),
    },
    park: { type: 'parked', write: (limit: Limit) => store.keyPark({ lease, answer: outcomeUnknown, reason, step, steps }, limit) },
  } as const
  const { type, write } = settle[afterFailure]
  crashPoint('settle:before')
  try {
    const result = await patiently(write, whileCertain(held), parts)
    if (result === 'done') report(claim, { type, error, durationMs: ranForMs(held) })
    else holding.tellLost()
  } catch (storeError) {
    // The lease expires, and the row has its `afterFailure`: the next claim settles it.
    report(claim, { type: 'answer-not-stored', error: storeError, durationMs: ranForMs(held) })
  }
  crashPoint('settle:after')
}

function reasonOf(error: unknown): string {
  return storableText(isError(error) ? namedThrownText(error) : 'the work threw something that is not an Error')
}
