import type { KeyState } from '../../../core/record.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { databaseNow } from './key-row.js'
import { type KeySummary, summaryColumns, summaryOf } from './key-summary.js'

/** `stuck`: processing past its lease. `overdue`: pending, and a worker might have taken it. `expired`: finished and past its retention. */
export type KeyKind = KeyState | 'stuck' | 'overdue' | 'expired'

export interface KeysFilter {
  readonly tenant?: string | undefined
  readonly scope?: string | undefined
  readonly key?: string | undefined
  readonly id?: string | undefined
  readonly kind?: KeyKind | undefined
  /** Only keys whose life began at least that long ago. */
  readonly olderThanMs?: number | undefined
  readonly oldestFirst?: boolean | undefined
  readonly limit: number
}

/** What each kind means, in SQL over the keys. */
export const keyKinds: Record<KeyKind, string> = {
  pending: `state = 'pending'`,
  processing: `state = 'processing'`,
  complete: `state = 'complete'`,
  failed: `state = 'failed'`,
  parked: `state = 'parked'`,
  stuck: `state = 'processing' and locked_until <= clock_timestamp()`,
  overdue: `waiting and due_at <= clock_timestamp()`,
  expired: `state in ('complete', 'failed') and expires_at <= clock_timestamp()`,
}

/** Keys as an operator asks for them. Without tenant and id it reads the whole table: there is no index for it, on purpose. */
export function keysList({ keys }: Tables) {
  return async (db: Queryable, filter: KeysFilter): Promise<KeySummary[]> => {
    const values: (string | number)[] = [filter.limit]
    const parameter = (value: string | number) => `$${values.push(value)}`
    const conditions = filter.kind ? [keyKinds[filter.kind]] : []
    if (filter.tenant !== undefined) conditions.push(`tenant = ${parameter(filter.tenant)}`)
    if (filter.scope !== undefined) conditions.push(`scope = ${parameter(filter.scope)}`)
    if (filter.key !== undefined) conditions.push(`key = ${parameter(filter.key)}`)
    if (filter.id !== undefined) conditions.push(`id = ${parameter(filter.id)}::uuid`)
    if (filter.olderThanMs !== undefined) {
      conditions.push(`created_at <= clock_timestamp() - ${parameter(filter.olderThanMs)}::float8 * interval '1 millisecond'`)
    }
    const order = filter.oldestFirst ? 'asc' : 'desc'
    const rows = await db.query(
      `select ${databaseNow}, ${summaryColumns} from ${keys} ${conditions.length > 0 ? `where ${conditions.join(' and ')}` : ''}
       order by keys.created_at ${order}, keys.id limit $1::integer`,
      values,
    )
    return rows.map(summaryOf)
  }
}
