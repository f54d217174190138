import { type Duration, durationMs } from './duration.js'
import { OncekeyError } from './errors.js'

/** How long a finished key is kept: a duration, `'forever'`, or either with the moment it is counted from. */
export type Retention = Duration | 'forever' | { readonly for: Duration | 'forever'; readonly from: 'creation' | 'completion' }

/**
 * Proven windows by use case. A window must be longer than the slowest honest retry: a later retry is a new request.
 */
export const retention = {
  /** 24 hours: Stripe's window; covers overnight retry queues. */
  payment: '24h',
  /** 1 hour: forms are sent again within minutes; a longer window hides real conflicts. */
  signup: '1h',
  /** 7 days: a receiver that breaks on Friday is fixed on Monday, and the sender redelivers. */
  webhook: '7d',
  /** 30 days from completion: workflow engines retry across deploys. */
  asyncJob: { for: '30d', from: 'completion' },
  /** Never expires: the key is part of the books. */
  ledger: 'forever',
} as const satisfies Record<string, Retention>

/** A retention in milliseconds. `ms` is `Infinity` for `'forever'`. */
export interface ResolvedRetention {
  readonly ms: number
  readonly from: 'creation' | 'completion'
  /** The minimum after a finish, so that work longer than its retention does not finish already expired. */
  readonly floorMs: number
}

export function resolveRetention(option: Retention, floor: Duration): ResolvedRetention {
  const wanted = typeof option === 'object' && option !== null ? option : { for: option, from: 'creation' as const }
  if (wanted.from !== 'creation' && wanted.from !== 'completion') {
    throw new OncekeyError('option_invalid', `retention.from is ${String(wanted.from)}: it must be 'creation' or 'completion'.`)
  }
  const ms = wanted.for === 'forever' ? Number.POSITIVE_INFINITY : durationMs(wanted.for, 'retention')
  return { ms, from: wanted.from, floorMs: Math.min(ms, durationMs(floor, 'retentionFloor')) }
}

/** When a key that finishes at `now` expires. */
export function expiryAtFinish(createdAt: number, now: number, { ms, from, floorMs }: ResolvedRetention): number {
  return Math.max((from === 'creation' ? createdAt : now) + ms, now + floorMs)
}
