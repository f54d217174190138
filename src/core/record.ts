import type { Answer } from './answer.js'
import type { KeyRef } from './key.js'
import type { AfterFailure } from './policy.js'

/**
 * `pending`: claimable, without a holder. `processing`: a holder has the lease, or had it when it crashed.
 * `complete`: the work returned an answer, declines included. `failed`: ended by the system or a person with a stored error.
 * `parked`: stopped for an operator; never runs, expires or is reaped.
 */
export type KeyState = 'pending' | 'processing' | 'complete' | 'failed' | 'parked'

/** What a store keeps of a key. Times are milliseconds on the store's own clock. */
export interface KeyRecord extends KeyRef {
  readonly id: string
  readonly state: KeyState
  /** This life of the key: a new one when an expired key is used again. */
  readonly incarnation: string
  /** Raised by each claim of this incarnation, so also the attempt number. 0: enqueued for workers, and never held. */
  readonly fence: number
  /** The token of the claim that holds the key, or held it last. */
  readonly owner: string
  /** The last committed phase or call. */
  readonly recoveryPoint: string | null
  readonly afterFailure: AfterFailure
  /** True for a key that only workers may run. */
  readonly async: boolean
  /** How often workers, not clients, have taken the key. */
  readonly attempts: number
  readonly fingerprint: Uint8Array | null
  readonly leaseUntil: number | null
  readonly createdAt: number
  /** `Infinity` for a key kept forever. Applies only once the key is complete or failed. */
  readonly expiresAt: number
  readonly answer: Answer | null
  /** Why the key was released, failed or parked, for people. */
  readonly reason: string | null
  /** The stored request, so that a worker can run it again. Null if none was stored or it was not read. */
  readonly request: Uint8Array | null
  /** Whether one was stored. */
  readonly hasRequest: boolean
}

/** The holder's proof for each later write. A write whose lease is not the newest changes nothing. */
export interface Lease {
  readonly tenant: string
  readonly id: string
  readonly incarnation: string
  readonly fence: number
  readonly owner: string
}

/** A complete or failed key past its time has expired. Unfinished work never expires. */
export function isExpired(record: Pick<KeyRecord, 'state' | 'expiresAt'>, now: number): boolean {
  return (record.state === 'complete' || record.state === 'failed') && record.expiresAt <= now
}
