import type { Answer, HeaderPair } from '../../../core/answer.js'
import type { KeyRecord } from '../../../core/record.js'
import type { Row } from '../connections/connection.js'

/** What `answerOf` reads. */
export const answerColumns = 'answer_status, answer_headers, answer_body, answer_omitted_bytes'

/**
 * The columns of a record in types that every driver reads alike: no timestamps, no 64-bit integers, and nothing that a
 * type parser of the user's own is likely to touch. Times are milliseconds since the epoch on the database's clock.
 */
export const recordColumns = `
  tenant, id::text as id, scope, key, state, incarnation::text as incarnation, fence, owner::text as owner,
  recovery_point, after_failure, async, attempts, fingerprint, reason, request,
  ${epochMs('locked_until')} as lease_until, ${epochMs('created_at')} as created_at,
  case when expires_at < 'infinity' then ${epochMs('expires_at')} end as expires_at,
  ${answerColumns}`

/** The database's time, which goes on while a statement waits for a lock; `now()` would stand still. */
export const databaseNow = `${epochMs('clock_timestamp()')} as now`

/** A moment as milliseconds since the epoch, in a type that every driver reads as a number. */
export function epochMs(expression: string): string {
  // Not extract(), which counts in numeric and is slower by far.
  return `(date_part('epoch', ${expression}) * 1000)`
}

/** A moment so many milliseconds after another. */
export function after(moment: string, ms: string): string {
  return `${moment} + ${ms}::float8 * interval '1 millisecond'`
}

/** The same for a retention, in which null is for ever. (Postgres has infinite timestamps, but infinite intervals only from 17 on.) */
export function afterRetention(moment: string, ms: string): string {
  return `case when ${ms}::float8 is null then 'infinity'::timestamptz else ${after(moment, ms)} end`
}

/** When nobody need wait any more for a key that a person lets wait again: its retention, counted anew. */
export const waitsAnewUntil = `case when reap_after < 'infinity' then greatest(expires_at, clock_timestamp() + (reap_after - created_at))
    else expires_at end`

/** The value for `afterRetention`. */
export function retentionValue(ms: number): number | null {
  return Number.isFinite(ms) ? ms : null
}

/** How a life of a key begins, as SQL over `clock.time`, the moment at which it does. */
export interface Beginning {
  readonly state: string
  readonly fence: number
  readonly async: boolean
  lockedUntil(leaseMs: string): string
  dueAt(leaseMs: string): string
  /** For the trail. */
  readonly what: string
}

/** Held by the claim that made it. */
export const held: Beginning = {
  state: `'processing'`,
  fence: 1,
  async: false,
  lockedUntil: (leaseMs) => after('clock.time', leaseMs),
  dueAt: (leaseMs) => after('clock.time', leaseMs),
  what: `'claimed'`,
}

/** Left to workers, and due at once. No attempt was made: the fence says so. */
export const queued: Beginning = {
  state: `'pending'`,
  fence: 0,
  async: true,
  lockedUntil: () => 'null::timestamptz',
  dueAt: () => 'clock.time',
  what: `'enqueued'`,
}

export function recordOf(row: Row): KeyRecord {
  return {
    tenant: row.tenant,
    id: row.id,
    scope: row.scope,
    key: row.key,
    state: row.state,
    incarnation: row.incarnation,
    fence: row.fence,
    owner: row.owner,
    recoveryPoint: row.recovery_point,
    afterFailure: row.after_failure,
    async: row.async,
    attempts: row.attempts,
    fingerprint: row.fingerprint,
    leaseUntil: row.lease_until,
    createdAt: row.created_at,
    expiresAt: row.expires_at ?? Number.POSITIVE_INFINITY,
    answer: row.answer_status === null ? null : answerOf(row),
    reason: row.reason,
    request: row.request,
  }
}

export function answerOf(row: Row): Answer {
  const status: number = row.answer_status
  const headers: HeaderPair[] = JSON.parse(row.answer_headers)
  const body: Uint8Array = row.answer_body ?? new Uint8Array()
  const omittedBytes: number | null = row.answer_omitted_bytes
  return omittedBytes === null ? { status, headers, body } : { status, headers, body, omittedBytes }
}

/** What is stored of an answer, with the types of its columns. */
const answerParts = {
  status: { type: 'smallint', of: ({ status }: Answer) => status },
  headers: { type: 'text', of: ({ headers }: Answer) => JSON.stringify(headers) },
  body: { type: 'bytea', of: ({ body }: Answer) => (body.length === 0 ? null : body) },
  omitted: { type: 'integer', of: ({ omittedBytes }: Answer) => omittedBytes ?? null },
} as const

/** The values of the four answer columns, in their order. */
export function answerValues(answer: Answer): [number, string, Uint8Array | null, number | null] {
  const { status, headers, body, omitted } = answerParts
  return [status.of(answer), headers.of(answer), body.of(answer), omitted.of(answer)]
}

/** The same as columns of a statement that is given answers. */
export function answersOf<Params extends { readonly answer: Answer }>() {
  const { status, headers, body, omitted } = answerParts
  return {
    status: { type: status.type, of: ({ answer }: Params) => status.of(answer) },
    headers: { type: headers.type, of: ({ answer }: Params) => headers.of(answer) },
    body: { type: body.type, of: ({ answer }: Params) => body.of(answer) },
    omitted: { type: omitted.type, of: ({ answer }: Params) => omitted.of(answer) },
  }
}
