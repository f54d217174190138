import type { Answer } from './answer.js'
import type { KeyRef } from './key.js'
import type { AfterFailure } from './policy.js'

/**
 * `pending`: claimable, nobody works on it. `processing`: a holder has the lease, or had it when it crashed.
 * `complete`: an answer was returned, declines included. `failed`: ended by the system or a person with a stored error.
 * `parked`: stopped for a person; never runs, expires or is reaped.
 */
export type KeyState = 'pending' | 'processing' | 'complete' | 'failed' | 'parked'

/** What a store keeps of a key. Times are milliseconds on the store's own clock. */
export interface KeyRecord extends KeyRef {
  readonly id: string
  readonly state: KeyState
  /** This life of the key: a new one when an expired key is used again. */
  readonly incarnation: string
  /** Raised by each claim of this incarnation, so it is also the number of the attempt. 0: left to workers, and never held by any. */
  readonly fence: number
  /** The token of the claim that holds the key, or held it last. */
  readonly owner: string
  /** The last phase or call that is committed. */
  readonly recoveryPoint: string | null
  readonly afterFailure: AfterFailure
  /** True for a key that only workers carry out. */
  readonly async: boolean
  /** How often a worker, and not a client, has taken the key. */
  readonly attempts: number
  readonly fingerprint: Uint8Array | null
  readonly leaseUntil: number | null
  readonly createdAt: number
  /** `Infinity` for a key that is kept for ever. Means something only once the key is complete or failed. */
  readonly expiresAt: number
  readonly answer: Answer | null
  /** Why the key was released, failed or parked, for people. */
  readonly reason: string | null
  /** The request as it came in, if it was kept, so that a worker can run it again. Null, too, if it was not wanted. */
  readonly request: Uint8Array | null
  /** Whether one was kept. */
  readonly hasRequest: boolean
}

/** The holder's proof, shown with each later write. A write whose lease is not the newest changes nothing. */
export interface Lease {
  readonly tenant: string
  readonly id: string
  readonly incarnation: string
  readonly fence: number
  readonly owner: string
}

/** Expired is a complete or failed key past its time. Unfinished work never expires, however long it takes. */
export function isExpired(record: Pick<KeyRecord, 'state' | 'expiresAt'>, now: number): boolean {
  return (record.state === 'complete' || record.state === 'failed') && record.expiresAt <= now
}
