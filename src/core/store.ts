import type { Answer } from './answer.js'
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
 * - Errors are `OncekeyError`s; `store_unavailable` and `store_timeout` say that the same call may be tried again.
 *
 * `Tx` is the user's own transaction, for stores that live in the database of the user's data.
 */
export interface Store<Tx = never> {
  /** What survives: `durable` a crash of the store, `best-effort` most of the time, `process` nothing but this process. */
  readonly durability: 'durable' | 'best-effort' | 'process'

  keyClaim(claim: KeyClaim): Promise<Verdict>
  /** Renews many leases at once, and answers for each in the same order. Never waits for a row that somebody has locked. */
  keyHeartbeat(heartbeat: { readonly leases: readonly LeaseRenewal[] }): Promise<LeaseStanding[]>
  /** Stores the answer. With `tx` it is part of that transaction, and a lost lease throws, so that the transaction rolls back. */
  keyFinish(finish: KeyFinish, tx?: Tx): Promise<WriteResult>
  /** Gives the key back unfinished, at its recovery point. */
  keyRelease(release: KeyRelease): Promise<WriteResult>
  /** Stops the key for a person to look at; every retry gets `answer` until then. */
  keyPark(park: KeyPark): Promise<WriteResult>
  keyRead(ref: KeyRef): Promise<KeyRecord | undefined>
  /** Deletes at most `limit` expired keys and says how many. Never an unfinished or parked one. */
  keyReap(reap: { readonly limit: number }): Promise<number>

  /** Runs `work` in a transaction of the user's kind. */
  transaction?<T>(work: (tx: Tx) => Promise<T>): Promise<T>
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
  | { readonly kind: 'execute'; readonly lease: Lease; readonly recoveryPoint: string | null; readonly takenOver: boolean }
  | { readonly kind: 'replay'; readonly state: 'complete' | 'failed'; readonly answer: Answer }
  | { readonly kind: 'in-progress'; readonly retryAfterMs: number }
  | { readonly kind: 'mismatch'; readonly part: FingerprintPart }
  | { readonly kind: 'parked'; readonly answer: Answer }

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
}

export interface KeyRelease {
  readonly lease: Lease
  readonly reason?: string | undefined
}

export interface KeyPark {
  readonly lease: Lease
  readonly answer: Answer
  readonly reason: string
}
