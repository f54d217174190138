import type { Answer } from '../../../core/answer.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { answerColumns, answerOf } from './key-row.js'
import { type KeySummary, summaryColumns, summaryOf } from './key-summary.js'
import { type KeyKind, keyKinds } from './keys-list.js'

export interface KeysWanted {
  /** Only those of this tenant. Default: of all, one tenant after the other. */
  readonly tenant?: string | undefined
  readonly scope?: string | undefined
  /** Default `complete`. */
  readonly kind?: KeyKind | undefined
}

export interface AnsweredKey extends KeySummary {
  /** As it is stored: it may be sealed. Null if there is none. */
  readonly answer: Answer | null
}

/** Where a page begins: after this key. */
export type KeyPlace = Pick<KeySummary, 'tenant' | 'id'>

/** Keys in the order of the primary key, which finds each page at once, however deep. */
export function keysPage({ keys }: Tables) {
  return async (db: Queryable, { tenant, scope, kind = 'complete' }: KeysWanted, after: KeyPlace | undefined, limit: number) => {
    const values: (string | number)[] = [limit]
    const parameter = (value: string) => `$${values.push(value)}`
    const conditions = [keyKinds[kind]]
    if (scope !== undefined) conditions.push(`scope = ${parameter(scope)}`)
    if (tenant !== undefined) conditions.push(`tenant = ${parameter(tenant)}`)
    if (after && tenant !== undefined) conditions.push(`id > ${parameter(after.id)}::uuid`)
    if (after && tenant === undefined) conditions.push(`(tenant, id) > (${parameter(after.tenant)}, ${parameter(after.id)}::uuid)`)
    const rows = await db.query(
      `select ${summaryColumns}, ${answerColumns} from ${keys} where ${conditions.join(' and ')} order by keys.tenant, keys.id limit $1::integer`,
      values,
    )
    return rows.map((row): AnsweredKey => ({ ...summaryOf(row), answer: row.answer_status === null ? null : answerOf(row) }))
  }
}
