import type { Answer } from './answer.js'
import type { OncekeyError } from './errors.js'
import type { Fingerprint, FingerprintPart } from './fingerprint/fingerprint.js'
import type { KeyRef } from './key.js'
import type { AfterFailure } from './policy.js'
import type { KeyRecord, Lease } from './record.js'
import type { ResolvedRetention } from './retention.js'

/**
 * What a store must do. `exerciseStore()` in `oncekey/testing` is the same contract as a test suite.
 *
 * - Each verb is atomic, and decided by the store's own clock.
 * - Verbs that take a lease change nothing unless that lease is the newest of its key (`'lost'`), and may be repeated: a
 *   caller whose acknowledgement was lost retries and gets the same answer.
 * - Errors are `OncekeyError`s. The engine retries after `store_unavailable`, `store_read_only` and `store_full`.
 *
 * `Tx` is the user's transaction, for stores in the database of the user's data.
 */
export interface Store<Tx = never> extends KeyStore {
  /** For resumable operations. Absent in a store that cannot share a transaction with the user's data. */
  readonly steps?: StepStore<Tx>
  /** For background work. Absent in a store that maintains itself. */
  readonly upkeep?: UpkeepStore
  /** For the relay. Absent in a store without steps to stage jobs with. */
  readonly outbox?: OutboxStore
  /** For work that one process at a time does. Absent in a store without turns. */
  readonly turns?: TurnStore
}

/** How long the caller waits. After that a store should cancel its work and destroy the connection that is still busy with it. */
export interface Limit {
  readonly timeoutMs: number
  /** Of that, how long to wait for another transaction that has the key. Default: all of it. */
  readonly lockMs?: number | undefined
}

export interface TransactionLimits extends Limit {
  readonly workMs: number
}

/** The verbs of every store. */
export interface KeyStore {
  /** What the data survives: `durable` a crash of the store, `best-effort` most failures, `process` nothing but this process. */
  readonly durability: 'durable' | 'best-effort' | 'process'

  keyClaim(claim: KeyClaim, limit?: Limit): Promise<Verdict>
  /** Enqueues the request for workers: a new key is pending and async, with fence 0. A known key gets the verdict of a claim that may not execute. */
  keyEnqueue(claim: KeyClaim, limit?: Limit): Promise<EnqueueVerdict>
  /** Renews many leases at once; one result for each, in order. Never waits for a locked row. */
  keyHeartbeat(heartbeat: { readonly leases: readonly LeaseRenewal[] }, limit?: Limit): Promise<LeaseStanding[]>
  keyFinish(finish: KeyFinish, limit?: Limit): Promise<WriteResult>
  /** Releases the key unfinished, at its recovery point. */
  keyRelease(release: KeyRelease, limit?: Limit): Promise<WriteResult>
  /** Stops the key for an operator; until then every retry gets `answer`. */
  keyPark(park: KeyPark, limit?: Limit): Promise<WriteResult>
  /**
   * Undoes a claim that failed for its caller. Deletes a key that the claim created, even after its lease ended and the key was swept; releases
   * a key that it took over. Enqueued requests and final answers stay. `absent`: not this claim's key, but the claim may still arrive. `locked`: retry.
   */
  keyWithdraw(claim: KeyRef & { readonly owner: string }, limit?: Limit): Promise<'done' | 'absent' | 'locked'>
  /** The verdict on a claim that would not execute; undefined if it would. Changes nothing. */
  keyPeek(claim: KeyClaim, limit?: Limit): Promise<Exclude<Verdict, { kind: 'execute' }> | undefined>
  /** With `{ request: false }` the stored request, which may be large, need not be read. */
  keyRead(ref: KeyRef, limit?: Limit, parts?: { readonly request?: boolean }): Promise<KeyRecord | undefined>
  /** The tenant's key with that id. Undefined for anything else, including invalid ids. */
  keyReadById(
    wanted: { readonly tenant: string; readonly id: string },
    limit?: Limit,
    parts?: { readonly request?: boolean },
  ): Promise<KeySighting | undefined>
  /**
   * Deletes at most `limit` expired keys and returns how many: 0 only if it can delete none now. Never an unfinished or parked one. Always
   * 0 in a store that expires keys itself. A key that cannot be deleted must not block the others: it is skipped for a while, and
   * reported to `onRefused`.
   */
  keyReap(
    reap: { readonly limit: number; readonly onRefused?: ((error: OncekeyError) => void) | undefined },
    limit?: Limit,
  ): Promise<number>
}

/**
 * The verbs of a store in the database of the user's data: the user's writes, the step's result, the recovery point and staged jobs are
 * one commit.
 */
export interface StepStore<Tx> {
  /**
   * Runs `work` in a transaction of the user's driver. After `workMs` it rolls back and throws `store_timeout`, whatever `work` waits for.
   * Begin, commit and rollback may take `timeoutMs` each.
   */
  transaction<T>(work: (tx: Tx) => Promise<T>, limits?: TransactionLimits): Promise<T>
  /**
   * What an error of a user's transaction means. `connection`: it may have committed. In all other cases it did not: it conflicted with another
   * transaction (`serialization`), exceeded the driver's time limit (`expired`), or the database refused the commit (`refused`), for example
   * because of a deferred constraint.
   */
  readonly failureOf: (error: unknown) => 'serialization' | 'expired' | 'refused' | 'connection' | 'other'
  /** The `OncekeyError` for an error of the transaction itself, not of the work in it. */
  readonly troubleOf: (error: unknown) => OncekeyError

  /**
   * Moves the recovery point from `from` to `to` and records the steps, if the lease is the newest. With `tx` it is part of that
   * transaction, which the caller must roll back unless the result is `'done'`.
   */
  stepAdvance(advance: StepAdvance, tx?: Tx, limit?: Limit): Promise<AdvanceResult>
  /** Stores the answer in that transaction, which the caller must roll back unless the result is `'done'`. */
  keyFinishWithin(finish: KeyFinish, tx: Tx, limit?: Limit): Promise<AdvanceResult>
  /** The steps of this life of the key, in recorded order. */
  stepsRead(lease: Lease, limit?: Limit): Promise<StepHistory>

  /**
   * A claim and everything after it in one transaction of the user's. Another claim of the key waits for that transaction to end, up to
   * `lockMs`, or `timeoutMs`. Then it throws `key_locked`, and its own transaction must be rolled back, or its savepoint undone.
   */
  keyClaimWithin(claim: KeyClaim, tx: Tx, limit?: Limit): Promise<Verdict>
  /**
   * Identifies the transaction among all open ones, if several objects may stand for it, as an ORM's nested transactions do. Undefined if the
   * object identifies it.
   */
  transactionId(tx: Tx): Promise<string | undefined>
  /** Starts a savepoint; the returned functions release it or roll back to it. */
  savepoint(tx: Tx): Promise<{ keep(): Promise<void>; undo(): Promise<void> }>

  /** An operator resolves a parked key, if it is still parked as they saw it. */
  keyResolve(resolve: KeyResolve, limit?: Limit): Promise<ResolveResult>
  /** The audit trail of a key, oldest first; empty unless the store keeps one. */
  auditRead(ref: KeyRef, limit?: Limit): Promise<AuditEntry[]>
  /** How long the oldest job has been due, over all tenants; 0 if there is none. Dead letters do not count. */
  jobsLagMs(limit?: Limit): Promise<number>
}

/** The verbs of background work. All processes may use them concurrently: each key is changed by one of them. */
export interface UpkeepStore {
  /**
   * Examines at most `limit` due keys and resets those whose holder is gone: they become pending, or what their `afterFailure` says. One
   * process at a time has the turn; the others get `turn: false`.
   */
  keysSweep(sweep: KeysSweep, limit?: Limit): Promise<Sweep>
  /** Due keys of these scopes that wait for a worker, with a stored request. Those that wait longest come first. */
  keysWaiting(wanted: { readonly scopes: readonly string[]; readonly limit: number }, limit?: Limit): Promise<readonly WaitingKey[]>
  /**
   * Ends at most `limit` unfinished keys past their retention, and none only if it can end no more now. One that was never claimed becomes
   * `failed`, with 408 and a new retention. Any other may have taken effect, and is parked: at once if no worker can run it, else a day later.
   * A key that cannot be written is reported to `onRefused`, and does not block the others.
   */
  keysTimeOut(
    wanted: { readonly limit: number; readonly onRefused?: ((error: OncekeyError) => void) | undefined },
    limit?: Limit,
  ): Promise<readonly EndedKey[]>
}

/** The verbs of the relay. All processes may use them concurrently: a job is held by one of them. */
export interface OutboxStore {
  /**
   * Takes at most `limit` due jobs, which no other call gets for `leaseMs` by the store's clock. Of each group it takes only the oldest job,
   * and none while that one is held, waits or, with `heldByDead`, is a dead letter. Never waits for a locked job.
   *
   * Small payloads come along, at most 64 KiB in all: a frozen process must not keep its take from committing.
   */
  jobsTake(take: JobsTake, limit?: Limit): Promise<JobsTaken>
  /** Reads payloads that did not come along. For each, in order: null if the job is no longer held under that token. Changes nothing. */
  jobsRead(wanted: { readonly jobs: readonly TakenRef[] }, limit?: Limit): Promise<(JobPayload | null)[]>
  /**
   * Stores the results of jobs, atomically. For each, in order: `'lost'` if it is no longer held under that token; `'locked'` if another session
   * has locked it: nothing was written for it, and the caller retries.
   */
  jobsSettle(settle: { readonly jobs: readonly JobSettlement[] }, limit?: Limit): Promise<SettleResult[]>
  /** Dead letters, oldest first, after the given one. */
  jobsDead(wanted: { readonly limit: number; readonly after?: DeadJob | undefined }, limit?: Limit): Promise<readonly DeadJob[]>
  /**
   * An operator resolves dead letters: deliver them again with all attempts, or delete them. Returns how many. Skips those that another
   * session has locked.
   */
  jobsResolve(wanted: { readonly jobs: readonly JobRef[]; readonly as: 'retry' | 'discard' }, limit?: Limit): Promise<number>
}

export interface JobRef {
  readonly tenant: string
  readonly id: string
}

export interface JobsTake {
  /** A random token of this take. */
  readonly token: string
  readonly leaseMs: number
  readonly limit: number
  /** Only jobs of these names. Default: all. */
  readonly names?: readonly string[] | undefined
  /** A dead letter stops its group. */
  readonly heldByDead: boolean
  /** `lookedUpTo` of the take before: where to look first. Only a take without it sees all jobs. Default: everywhere. */
  readonly from?: string | undefined
  /** `nextGroup` of the take before: with very many groups, a take examines some of them. Default: from the first. */
  readonly group?: string | undefined
}

export interface JobsTaken {
  readonly jobs: readonly TakenJob[]
  /** Nothing more to take up to here, except late commits; null if unknown. */
  readonly lookedUpTo: string | null
  /** The group to continue with; null for the first. */
  readonly nextGroup: string | null
}

/** A job under the token of its take. */
export interface TakenRef extends JobRef {
  readonly token: string
}

export interface JobPayload {
  /** JSON. */
  readonly payload: string
  /** Why it cannot be read. It is empty then. */
  readonly unreadable?: OncekeyError
}

export type SettleResult = WriteResult | 'locked'

export interface TakenJob extends JobRef {
  readonly name: string
  /** JSON. Null if it did not come along: `jobsRead` has it. */
  readonly payload: string | null
  /** Its stored size. */
  readonly payloadBytes: number
  readonly group: string | null
  /** 1-based attempt number. */
  readonly attempt: number
  readonly stagedAt: number
  /** How long it has been due, by the store's clock. */
  readonly lagMs: number
  /** Why its payload cannot be read. It is empty then. */
  readonly unreadable?: OncekeyError
}

/** `token` is that of the take. */
export type JobSettlement = TakenRef /** Delivered: it is deleted. */ &
  (
    | { readonly as: 'delivered' }
    | { readonly as: 'retry'; readonly dueInMs: number; readonly error: string }
    /** Failed for good: a dead letter. */
    | { readonly as: 'dead'; readonly error: string }
    /** Released untried. */
    | { readonly as: 'release' }
  )

export interface DeadJob extends JobRef {
  readonly name: string
  readonly group: string | null
  readonly attempts: number
  readonly stagedAt: number
  readonly deadAt: number
  /** The error of the last delivery. */
  readonly error: string | null
}

export interface KeysSweep {
  /** Who has the turn. The same for all calls of a process. */
  readonly holder: string
  /** How long the turn lasts if the process dies. */
  readonly turnMs: number
  readonly limit: number
  /** `lookedUpTo` of the previous call, to continue from there. Default: from where all keys are known to be in order. */
  readonly after?: string | undefined
  /** Called for a key that cannot be written, for example because of a trigger. It does not block other keys. */
  readonly onRefused?: ((error: OncekeyError) => void) | undefined
}

export type Sweep =
  | { readonly turn: false }
  /** `lookedUpTo` is null when there is nothing more to examine now. */
  | { readonly turn: true; readonly swept: readonly EndedKey[]; readonly lookedUpTo: string | null }

/** A key that background work reset or ended. */
export interface EndedKey extends KeyRef {
  readonly fence: number
  readonly to: 'pending' | 'failed' | 'parked'
  readonly reason: string
}

export interface WaitingKey extends KeyRef {
  /** How often workers took it. */
  readonly attempts: number
  /** The last holder vanished without releasing the key: its work may crash the process. */
  readonly holderGone: boolean
}

/** Exclusive turns, by the name of the work. A turn expires if its holder dies. */
export interface TurnStore {
  /** Takes the turn if it is free and due, and returns the store's time. Undefined otherwise. */
  turnTake(take: TurnTake, limit?: Limit): Promise<{ readonly now: number } | undefined>
  /** Extends the turn by `turnMs` from now. False if this holder has lost it. */
  turnKeep(turn: Turn, limit?: Limit): Promise<boolean>
  /** Gives the turn back; the next one is due in `nextInMs`. Changes nothing if this holder has lost it. */
  turnEnd(turn: Pick<Turn, 'name' | 'holder'> & { readonly nextInMs: number }, limit?: Limit): Promise<void>
}

export interface Turn {
  readonly name: string
  /** A UUID of this turn. */
  readonly holder: string
  readonly turnMs: number
}

export interface TurnTake extends Turn {
  /** Takes it even before it is due. */
  readonly early: boolean
}

/** `repeated`: this same write was committed before, and its acknowledgement was lost. The current transaction must not commit. */
export type AdvanceResult = 'done' | 'repeated' | 'lost'

export interface StepAdvance {
  readonly lease: Lease
  readonly from: string | null
  readonly to: string
  readonly steps: readonly StepRecord[]
  readonly jobs: readonly JobRecord[]
}

/**
 * `phase` and `call` have a result. `refused`: a call that the other side refused for good; the result says why.
 * `intent`: a call about to be made; it may have happened. `cleared`: it did not, and may be made.
 */
export type StepKind = 'phase' | 'call' | 'refused' | 'intent' | 'cleared'

export interface StepRecord {
  readonly name: string
  /** 1-based position of the step in this life of the key. */
  readonly position: number
  readonly kind: StepKind
  /** JSON, or null for nothing. */
  readonly result: string | null
}

export interface StepHistory {
  readonly steps: readonly (StepRecord & { readonly ageMs: number })[]
  /** Age of the newest step, or else of the key itself, by the store's clock. */
  readonly lastCommitAgeMs: number
}

/** A side effect staged with a phase and delivered later. */
export interface JobRecord {
  readonly id: string
  readonly name: string
  /** JSON. */
  readonly payload: string
  /** Jobs of one group are delivered in the order in which they were staged. Default: in any order. */
  readonly group?: string | null
  /** Delay between staging and delivery. Default: none. */
  readonly delayMs?: number
}

export type Resolution =
  /** The call took effect; `result` is what it would have returned. The operation continues after it. */
  | { readonly as: 'happened'; readonly result: string | null }
  /** It did not: the operation makes it (again). */
  | { readonly as: 'did-not-happen' }
  /** The operation ends here, with this answer for every retry. */
  | { readonly as: 'failed'; readonly answer: Answer; readonly retention: ResolvedRetention }

export interface KeyResolve extends KeyRef {
  readonly resolution: Resolution
  readonly by: string
}

export type ResolveResult = 'done' | 'not-parked' | 'no-step'

export interface AuditEntry {
  readonly what: string
  readonly at: number
  readonly incarnation: string
  readonly fence: number
  readonly detail: string | null
}

export interface KeyClaim extends KeyRef {
  /** A random token of this claim. Repeating it repeats the claim; on a new key it becomes the incarnation. */
  readonly owner: string
  readonly fingerprint: Fingerprint | null
  readonly leaseMs: number
  readonly retention: ResolvedRetention
  readonly afterFailure: AfterFailure
  /** Stored with the key, so that a worker can run the request again. */
  readonly request: Uint8Array | null
  /** True for a worker, which may execute async keys. */
  readonly worker: boolean
}

export type Verdict =
  | {
      readonly kind: 'execute'
      readonly lease: Lease
      readonly recoveryPoint: string | null
      readonly takenOver: boolean
      /** How often workers have taken this life of the key, this time included. */
      readonly attempts: number
      /** The request that created this key, if it was stored. */
      readonly request: Uint8Array | null
    }
  /** `settled`: this claim found the holder gone and ended the key, because its work must not run again. */
  | {
      readonly kind: 'replay'
      readonly state: 'complete' | 'failed'
      readonly answer: Answer
      /** The life of the key that the answer belongs to. */
      readonly incarnation: string
      /** Time until it expires, by the store's clock. */
      readonly expiresInMs: number
      readonly settled?: boolean
    }
  | { readonly kind: 'in-progress'; readonly retryAfterMs: number }
  | { readonly kind: 'mismatch'; readonly part: FingerprintPart }
  | { readonly kind: 'parked'; readonly answer: Answer; readonly settled?: boolean }

/** The result of an enqueue. `enqueued`: the key waits for a worker, and this claim created it. */
export type EnqueueVerdict = { readonly kind: 'enqueued'; readonly id: string } | Exclude<Verdict, { kind: 'execute' }>

/** A key, and the store's time when it was read. */
export interface KeySighting {
  readonly record: KeyRecord
  readonly now: number
}

export interface LeaseRenewal extends Lease {
  readonly leaseMs: number
}

/** `busy`: another session has locked the row; nothing was renewed or lost: retry. */
export type LeaseStanding = 'renewed' | 'lost' | 'busy'

/** `lost`: another holder has the key, or it is a new incarnation. Nothing was written. */
export type WriteResult = 'done' | 'lost'

export interface KeyFinish {
  readonly lease: Lease
  readonly state: 'complete' | 'failed'
  readonly answer: Answer
  readonly retention: ResolvedRetention
  readonly reason?: string | undefined
  /** Recorded in the same commit. */
  readonly steps?: readonly StepRecord[]
  readonly jobs?: readonly JobRecord[]
}

export interface KeyRelease {
  readonly lease: Lease
  readonly reason?: string | undefined
  /** How long workers leave it alone. A client may take it at once. Default: 0. */
  readonly dueInMs?: number
  /** Results not committed yet: the next holder starts with them. */
  readonly steps?: readonly StepRecord[]
}

export interface KeyPark {
  readonly lease: Lease
  readonly answer: Answer
  readonly reason: string
  /** The call whose outcome is in question. */
  readonly step?: string | undefined
  readonly steps?: readonly StepRecord[]
}
