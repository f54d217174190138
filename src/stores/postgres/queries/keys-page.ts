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

/** How many bytes of answers a page has, unless a single one is larger. */
const pageBytes = 4_194_304

export interface KeysPage {
  readonly keys: readonly AnsweredKey[]
  /** False if there are no keys after these. */
  readonly more: boolean
}

/**
 * Keys in the order of the primary key, which finds each page at once, however deep. A page has at most `limit` keys, and ends where their answers
 * are too large together; their sizes are known without reading them.
 */
export function keysPage({ keys }: Tables) {
  return async (
    db: Queryable,
    { tenant, scope, kind = 'complete' }: KeysWanted,
    after: KeyPlace | undefined,
    limit: number,
  ): Promise<KeysPage> => {
    const values: (string | number)[] = [limit]
    const parameter = (value: string) => `$${values.push(value)}`
    const conditions = [keyKinds[kind]]
    if (scope !== undefined) conditions.push(`scope = ${parameter(scope)}`)
    if (tenant !== undefined) conditions.push(`tenant = ${parameter(tenant)}`)
    if (after && tenant !== undefined) conditions.push(`id > ${parameter(after.id)}::uuid`)
    if (after && tenant === undefined) conditions.push(`(tenant, id) > (${parameter(after.tenant)}, ${parameter(after.id)}::uuid)`)
    const order = 'keys.tenant, keys.id'
    const bytes = 'coalesce(octet_length(answer_body), 0) + coalesce(octet_length(answer_headers), 0)'
    const rows = await db.query(
      `select ${summaryColumns}, ${answerColumns}, looked from (
         select keys.*, sum(${bytes}) over (order by ${order}) as bytes_so_far, row_number() over (order by ${order}) as place,
           (count(*) over ())::float8 as looked
         from (select * from ${keys} where ${conditions.join(' and ')} order by ${order} limit $1::integer) as keys
       ) as keys
       where bytes_so_far <= ${pageBytes} or place = 1 order by ${order}`,
      values,
    )
    const found = rows.map((row): AnsweredKey => ({ ...summaryOf(row), answer: row.answer_status === null ? null : answerOf(row) }))
    return { keys: found, more: rows.length > 0 && (rows[0]?.looked === limit || rows.length < rows[0]?.looked) }
  }
}
