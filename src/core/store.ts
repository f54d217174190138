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
 * - Each verb is one atomic act, decided by the store's own clock.
 * - Verbs that take a lease change nothing unless that lease is the newest of its key (`'lost'`), and may be repeated: a
 *   caller whose acknowledgement was lost asks again and gets the same answer.
 * - Errors are `OncekeyError`s; `store_unavailable`, `store_read_only` and `store_full` may pass, so the
 *   engine tries the same call again.
 *
 * `Tx` is the user's own transaction, for stores that live in the database of the user's data.
 */
export interface Store<Tx = never> extends KeyStore {
  /** What resumable operations are made of. Absent in a store that cannot share a transaction with the user's data. */
  readonly steps?: StepStore<Tx>
  /** What background work is made of. Absent in a store that looks after itself. */
  readonly upkeep?: UpkeepStore
  /** What the relay is made of. Absent in a store that has no steps to stage jobs with. */
  readonly outbox?: OutboxStore
  /** What work is made of that one process at a time should do. Absent in a store that knows no turns. */
  readonly turns?: TurnStore
}

/** How long the caller of a verb waits. After that a store should stop its own work and destroy the connection that is still busy with it. */
export interface Limit {
  readonly timeoutMs: number
  /** Of that, how long to wait for another transaction that has the key. Default: all of it. */
  readonly lockMs?: number | undefined
}

export interface TransactionLimits extends Limit {
  readonly workMs: number
}

/** The verbs that every store has. */
export interface KeyStore {
  /** What survives: `durable` a crash of the store, `best-effort` most of the time, `process` nothing but this process. */
  readonly durability: 'durable' | 'best-effort' | 'process'

  keyClaim(claim: KeyClaim, limit?: Limit): Promise<Verdict>
  /**
   * Keeps the request for workers to carry out: a new key is pending, async and was never held, so its fence is 0. A key that is known
   * already gets the verdict of a claim that may not execute.
   */
  keyEnqueue(claim: KeyClaim, limit?: Limit): Promise<EnqueueVerdict>
  /** Renews many leases at once, and answers for each in the same order. Never waits for a row that somebody has locked. */
  keyHeartbeat(heartbeat: { readonly leases: readonly LeaseRenewal[] }, limit?: Limit): Promise<LeaseStanding[]>
  /** Stores the answer. */
  keyFinish(finish: KeyFinish, limit?: Limit): Promise<WriteResult>
  /** Gives the key back unfinished, at its recovery point. */
  keyRelease(release: KeyRelease, limit?: Limit): Promise<WriteResult>
  /** Stops the key for a person to look at; every retry gets `answer` until then. */
  keyPark(park: KeyPark, limit?: Limit): Promise<WriteResult>
  /**
   * Undoes a claim that failed for its caller. Deletes a key that the claim began, even after its lease ended and the key was swept; releases a key
   * that it took over. A request left to workers and a final answer stay. `absent`: the key is not this claim's, but the claim may still arrive. `locked`: retry.
   */
  keyWithdraw(claim: KeyRef & { readonly owner: string }, limit?: Limit): Promise<'done' | 'absent' | 'locked'>
  /** The verdict on a claim that would not execute; undefined if it would. Changes nothing. */
  keyPeek(claim: KeyClaim, limit?: Limit): Promise<Exclude<Verdict, { kind: 'execute' }> | undefined>
  /** With `{ request: false }` the stored request, which may be large, need not be read. */
  keyRead(ref: KeyRef, limit?: Limit, parts?: { readonly request?: boolean }): Promise<KeyRecord | undefined>
  /** The key with that id, if it is this tenant's. Undefined for anything else, also for what is no id at all. */
  keyReadById(
    wanted: { readonly tenant: string; readonly id: string },
    limit?: Limit,
    parts?: { readonly request?: boolean },
  ): Promise<KeySighting | undefined>
  /**
   * Deletes at most `limit` expired keys and says how many: 0 only if there is none that it can delete now. Never an unfinished or parked
   * one. Always 0 in a store whose keys go by themselves. A key that it cannot delete must not keep it from the others: it leaves that
   * one alone for a while, and calls `onRefused`.
   */
  keyReap(
    reap: { readonly limit: number; readonly onRefused?: ((error: OncekeyError) => void) | undefined },
    limit?: Limit,
  ): Promise<number>
}

/**
 * The part of a store that lives in the database of the user's data: the user's writes, the step's result, the recovery point
 * and staged jobs are one commit.
 */
export interface StepStore<Tx> {
  /**
   * Runs `work` in a transaction of the user's kind. After `workMs` the transaction is rolled back and the caller is told `store_timeout`, whatever
   * the work is waiting for; to begin, commit and roll back may take `timeoutMs` each.
   */
  transaction<T>(work: (tx: Tx) => Promise<T>, limits?: TransactionLimits): Promise<T>
  /**
   * What an error of a user's transaction means. `connection`: it may have been committed. In all other cases nothing was: it conflicted with
   * another transaction (`serialization`), exceeded the driver's time limit (`expired`), or the database refused the commit (`refused`), such as
   * for a deferred constraint.
   */
  readonly failureOf: (error: unknown) => 'serialization' | 'expired' | 'refused' | 'connection' | 'other'
  /** The same in our words, for an error of the transaction itself and not of the work in it. */
  readonly troubleOf: (error: unknown) => OncekeyError

  /**
   * Moves the recovery point from `from` to `to` and records the steps, if the lease is the newest. With `tx` it is part of that
   * transaction, which the caller must roll back unless the result is `'done'`.
   */
  stepAdvance(advance: StepAdvance, tx?: Tx, limit?: Limit): Promise<AdvanceResult>
  /** Stores the answer in that transaction, which the caller must roll back unless the result is `'done'`. */
  keyFinishWithin(finish: KeyFinish, tx: Tx, limit?: Limit): Promise<AdvanceResult>
  /** The steps of this life of the key, in the order in which they were recorded. */
  stepsRead(lease: Lease, limit?: Limit): Promise<StepHistory>

  /**
   * A claim and everything after it in one transaction of the user's. Another claim of the key waits for that transaction to end, up to
   * `lockMs`, or `timeoutMs`. Then it throws `key_locked`, and its own transaction must be rolled back, or its savepoint undone.
   */
  keyClaimWithin(claim: KeyClaim, tx: Tx, limit?: Limit): Promise<Verdict>
  /**
   * What tells the transaction from all others that are open, if several objects may stand for it, as an ORM's nested transactions do. Undefined if
   * the object is enough.
   */
  transactionId(tx: Tx): Promise<string | undefined>
  /** Begins a part of the user's transaction that can be undone by itself; the returned functions end it. */
  savepoint(tx: Tx): Promise<{ keep(): Promise<void>; undo(): Promise<void> }>

  /** A person's word on a parked key, if it is still parked as they saw it. */
  keyResolve(resolve: KeyResolve, limit?: Limit): Promise<ResolveResult>
  /** What is noted of a key's life, oldest first; empty unless the store keeps an audit trail. */
  auditRead(ref: KeyRef, limit?: Limit): Promise<AuditEntry[]>
  /** How long the oldest job could have been delivered already, over all tenants; 0 if there is none. Those that were given up do not count. */
  jobsLagMs(limit?: Limit): Promise<number>
}

/** The verbs of background work. All processes may use them at once: each key is changed by one of them. */
export interface UpkeepStore {
  /**
   * Looks at keys that are due, at most `limit` of them, and takes those back whose holder is gone: they become pending, or what their
   * `afterFailure` says. One process at a time has the turn to look; the others are told so, and need not.
   */
  keysSweep(sweep: KeysSweep, limit?: Limit): Promise<Sweep>
  /** Keys of these scopes that wait for a worker and are due, with a request to go on from. Those that wait longest come first. */
  keysWaiting(wanted: { readonly scopes: readonly string[]; readonly limit: number }, limit?: Limit): Promise<readonly WaitingKey[]>
  /**
   * Ends keys that nobody came back for within their retention, at most `limit`, and none only if there are no more that it can end now: one that was never claimed becomes `failed`, with 408 and
   * a new retention. Any other may have taken effect, and is parked: at once if no worker can run it, else a day later. A key that cannot be
   * written is reported to `onRefused`, and keeps no other from being ended.
   */
  keysTimeOut(
    wanted: { readonly limit: number; readonly onRefused?: ((error: OncekeyError) => void) | undefined },
    limit?: Limit,
  ): Promise<readonly EndedKey[]>
}

/** The verbs of the relay. All processes may use them at once: a job is held by one of them. */
export interface OutboxStore {
  /**
   * Takes jobs that are due, at most `limit`: nobody else gets them for `leaseMs` by the store's clock. Of each group it takes the oldest job
   * only, and none while that one is held, waits or, with `heldByDead`, was given up. Never waits for a job that somebody has locked.
   *
   * Payloads come along while they are small, at most 64 KiB in all: a process that is frozen must not keep what it took from being committed.
   */
  jobsTake(take: JobsTake, limit?: Limit): Promise<JobsTaken>
  /** Reads payloads that did not come along. For each in its place: null if the job is not held under that token any more. Changes nothing. */
  jobsRead(wanted: { readonly jobs: readonly TakenRef[] }, limit?: Limit): Promise<(JobPayload | null)[]>
  /**
   * Says what became of jobs, in one act. For each in its place: `'lost'` if it is not held under that token any more, `'locked'` if it is, but
   * another session has locked it: nothing was written of that one, and the caller asks again later.
   */
  jobsSettle(settle: { readonly jobs: readonly JobSettlement[] }, limit?: Limit): Promise<SettleResult[]>
  /** Jobs that were given up, those of the longest standing first, after the one that is named. */
  jobsDead(wanted: { readonly limit: number; readonly after?: DeadJob | undefined }, limit?: Limit): Promise<readonly DeadJob[]>
  /**
   * A person's word on jobs that were given up: deliver them again, from the first attempt on, or delete them. Says how many. Leaves those alone
   * that another session has locked.
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
  /** A job that was given up stops its group. */
  readonly heldByDead: boolean
  /** `lookedUpTo` of the take before: where to look first. What it passes over is found by a take without it. Default: everywhere. */
  readonly from?: string | undefined
  /** `nextGroup` of the take before: with very many groups, a take looks at some of them. Default: from the first one on. */
  readonly group?: string | undefined
}

export interface JobsTaken {
  readonly jobs: readonly TakenJob[]
  /** Up to where there is nothing more to take, but for what is committed late; null if that is not known. */
  readonly lookedUpTo: string | null
  /** With which group the next take should go on; null for the first one. */
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
  /** Its size as it is stored. */
  readonly payloadBytes: number
  readonly group: string | null
  /** The how-manieth take of this job it is. */
  readonly attempt: number
  readonly stagedAt: number
  /** How long it could have been delivered already, by the store's clock. */
  readonly lagMs: number
  /** Why its payload cannot be read. It is empty then. */
  readonly unreadable?: OncekeyError
}

/** `token` is that of the take. */
export type JobSettlement = TakenRef /** Delivered: it is deleted. */ &
  (
    | { readonly as: 'delivered' }
    | { readonly as: 'retry'; readonly dueInMs: number; readonly error: string }
    /** Given up, for a person to look at. */
    | { readonly as: 'dead'; readonly error: string }
    /** Given back untried. */
    | { readonly as: 'release' }
  )

export interface DeadJob extends JobRef {
  readonly name: string
  readonly group: string | null
  readonly attempts: number
  readonly stagedAt: number
  readonly deadAt: number
  /** What the last delivery failed with. */
  readonly error: string | null
}

export interface KeysSweep {
  /** Whose turn it is. The same for all calls of a process. */
  readonly holder: string
  /** How long the turn lasts, should the process die. */
  readonly turnMs: number
  readonly limit: number
  /** `lookedUpTo` of the call before, to go on from there. Default: from where everything is known to be in order. */
  readonly after?: string | undefined
  /** Called for a key that cannot be written, such as because of a trigger. It keeps no other key from being taken back. */
  readonly onRefused?: ((error: OncekeyError) => void) | undefined
}

export type Sweep =
  | { readonly turn: false }
  /** `lookedUpTo` is null when there is nothing more to look at now. */
  | { readonly turn: true; readonly swept: readonly EndedKey[]; readonly lookedUpTo: string | null }

/** A key that background work took from whoever had it. */
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

/** Whose turn it is, by the name of what is to be done. A turn ends by itself, should its holder die. */
export interface TurnStore {
  /** Takes the turn if nobody has it and it is due, and tells the store's own time. Undefined if it is not to be had now. */
  turnTake(take: TurnTake, limit?: Limit): Promise<{ readonly now: number } | undefined>
  /** The turn lasts another `turnMs` from now. False if it is this holder's no more. */
  turnKeep(turn: Turn, limit?: Limit): Promise<boolean>
  /** Gives the turn back; the next one is due in `nextInMs`. Changes nothing if it is this holder's no more. */
  turnEnd(turn: Pick<Turn, 'name' | 'holder'> & { readonly nextInMs: number }, limit?: Limit): Promise<void>
}

export interface Turn {
  readonly name: string
  /** A UUID of this turn alone. */
  readonly holder: string
  readonly turnMs: number
}

export interface TurnTake extends Turn {
  /** Takes it before it is due, too. */
  readonly early: boolean
}

/** `repeated`: this very write was committed before, and its acknowledgement was lost. The transaction it is in must not commit again. */
export type AdvanceResult = 'done' | 'repeated' | 'lost'

export interface StepAdvance {
  readonly lease: Lease
  readonly from: string | null
  readonly to: string
  readonly steps: readonly StepRecord[]
  readonly jobs: readonly JobRecord[]
}

/**
 * `phase` and `call` have a result. `refused`: a call that the other side turned down for good; the result says why.
 * `intent`: a call that was about to be made; whether it was is not known. `cleared`: it was not, and may be made.
 */
export type StepKind = 'phase' | 'call' | 'refused' | 'intent' | 'cleared'

export interface StepRecord {
  readonly name: string
  /** The how-manieth step of this life of the key. */
  readonly position: number
  readonly kind: StepKind
  /** JSON, or null for nothing. */
  readonly result: string | null
}

export interface StepHistory {
  readonly steps: readonly (StepRecord & { readonly ageMs: number })[]
  /** How long ago the newest step, or else the key itself, was committed, by the store's clock. */
  readonly lastCommitAgeMs: number
}

/** A side effect that is staged with a phase and delivered later. */
export interface JobRecord {
  readonly id: string
  readonly name: string
  /** JSON. */
  readonly payload: string
  /** Jobs of one group are delivered one after the other, in the order in which they were staged. Default: in any order. */
  readonly group?: string | null
  /** How long after its staging it may be delivered. Default: at once. */
  readonly delayMs?: number
}

export type Resolution =
  /** The call took effect; `result` is what it would have returned. The operation goes on after it. */
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
  /** A random token of this claim. The same one again means the same claim; on a new key it becomes the incarnation. */
  readonly owner: string
  readonly fingerprint: Fingerprint | null
  readonly leaseMs: number
  readonly retention: ResolvedRetention
  readonly afterFailure: AfterFailure
  /** Kept with the key, so that a worker can run the request again. */
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
      /** How often a worker has taken this life of the key, this time included. */
      readonly attempts: number
      /** The request that this key was first used with, if it was kept. */
      readonly request: Uint8Array | null
    }
  /** `settled`: this claim found the holder gone and ended the key, because its work must not run again. */
  | {
      readonly kind: 'replay'
      readonly state: 'complete' | 'failed'
      readonly answer: Answer
      /** The life of the key that the answer is of. */
      readonly incarnation: string
      /** How much longer it is kept, by the store's clock. */
      readonly expiresInMs: number
      readonly settled?: boolean
    }
  | { readonly kind: 'in-progress'; readonly retryAfterMs: number }
  | { readonly kind: 'mismatch'; readonly part: FingerprintPart }
  | { readonly kind: 'parked'; readonly answer: Answer; readonly settled?: boolean }

/** What an enqueue comes to. `enqueued`: the key waits for a worker, and is of this claim's making. */
export type EnqueueVerdict = { readonly kind: 'enqueued'; readonly id: string } | Exclude<Verdict, { kind: 'execute' }>

/** A key, and the store's own time when it was looked at. */
export interface KeySighting {
  readonly record: KeyRecord
  readonly now: number
}

export interface LeaseRenewal extends Lease {
  readonly leaseMs: number
}

/** `busy`: somebody has the row locked just now; nothing was renewed and nothing is lost, ask again. */
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
  /** How long workers leave it alone. A client that comes back may take it at once. Default: not at all. */
  readonly dueInMs?: number
  /** Results that no commit has carried yet: the next holder starts with them. */
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
