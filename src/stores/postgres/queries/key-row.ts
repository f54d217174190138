import type { Answer, HeaderPair } from '../../../core/answer.js'
import { inAscii } from '../../../core/json-text.js'
import type { KeyRecord } from '../../../core/record.js'
import type { Row } from '../connections/connection.js'

/** Bytes as a text that no setting of a session and no type parser of a driver changes. */
const bytesText = (column: string) => `encode(${column}, 'base64')`

const bytesOf = (text: string | null): Uint8Array | null => (text === null ? null : Buffer.from(text, 'base64'))

/** What `answerOf` reads. */
export const answerColumns = `answer_status, answer_headers, ${bytesText('answer_body')} as answer_body, answer_omitted_bytes`

/** What `bytesOfRequest` reads. */
export const requestColumn = `${bytesText('request')} as request`

export const requestOf = ({ request }: Row): Uint8Array | null => bytesOf(request)

/** How large the parts of a record are that may be large. Asking for the size of a value does not read it. */
export const answerSize = '(coalesce(octet_length(answer_body), 0) + coalesce(octet_length(answer_headers), 0))'
export const requestSize = 'coalesce(octet_length(request), 0)'

/**
 * A statement that writes returns no more than 64 KiB: a process that is frozen then keeps it from being committed only while it fits into no buffer on
 * the way. These sizes ride along, in base64; what is larger is read by a statement of its own.
 */
export const smallAnswer = 32 * 1024
export const smallRequest = 12 * 1024

/**
 * The columns of a record in types that every driver reads alike: no timestamps, no bytes, no 64-bit integers, and nothing that a
 * type parser of the user's own is likely to touch. Times are milliseconds since the epoch on the database's clock. `ridesAlong`: SQL that is
 * true for a row whose answer and request may come along if they are small.
 */
export function recordColumns(ridesAlong = 'true'): string {
  const hasAnswer = `${ridesAlong} and ${answerSize} <= ${smallAnswer}`
  const hasRequest = `${ridesAlong} and ${requestSize} <= ${smallRequest}`
  return `
  tenant, id::text as id, scope, key, state, incarnation::text as incarnation, fence, owner::text as owner,
  recovery_point, after_failure, async, attempts, ${bytesText('fingerprint')} as fingerprint, reason,
  ${epochMs('locked_until')} as lease_until, ${epochMs('created_at')} as created_at,
  case when expires_at < 'infinity' then ${epochMs('expires_at')} end as expires_at,
  case when ${hasRequest} then ${bytesText('request')} end as request,
  case when not (${hasRequest}) then ${requestSize} else 0 end as request_left,
  answer_status, answer_omitted_bytes, case when ${hasAnswer} then answer_headers end as answer_headers,
  case when ${hasAnswer} then ${bytesText('answer_body')} end as answer_body,
  case when not (${hasAnswer}) then ${answerSize} else 0 end as answer_left`
}

/**
 * A record without its tenant and id as one text, which `unpackedRecord` reads. Each column of a result costs the server and the driver, also where it is
 * empty: this is for a statement that mostly finds nothing. Headers travel as the JSON that they are, because as a text in JSON their quotes would take
 * twice their bytes.
 */
export const packedRecord = `json_build_array(
  scope, key, state, incarnation, fence, owner, recovery_point, after_failure, async, attempts, ${bytesText('fingerprint')}, reason,
  ${epochMs('locked_until')}, ${epochMs('created_at')}, case when expires_at < 'infinity' then ${epochMs('expires_at')} end,
  octet_length(request), case when octet_length(request) <= ${smallRequest} then ${bytesText('request')} end,
  case when answer_status is null then null
       when ${answerSize} <= ${smallAnswer} then json_build_array(0, answer_status, answer_omitted_bytes, answer_headers::json, ${bytesText('answer_body')})
       else json_build_array(${answerSize}, answer_status) end)::text`

export function unpackedRecord(packed: string, tenant: string, id: string): Row {
  const [scope, key, state, incarnation, fence, owner, recovery_point, after_failure, async, attempts, fingerprint, reason, ...rest] =
    JSON.parse(packed)
  const [lease_until, created_at, expires_at, requestBytes, request, answer] = rest
  const [answer_left, answer_status, answer_omitted_bytes, answer_headers, answer_body] = answer ?? [0, null, null, null, null]
  const request_left = request === null ? (requestBytes ?? 0) : 0
  return {
    tenant,
    id,
    scope,
    key,
    state,
    incarnation,
    fence,
    owner,
    recovery_point,
    after_failure,
    async,
    attempts,
    fingerprint,
    reason,
    lease_until,
    created_at,
    expires_at,
    request,
    request_left,
    answer_left,
    answer_status,
    answer_omitted_bytes,
    answer_headers,
    answer_body,
  }
}

/** The database's time, which goes on while a statement waits for a lock; `now()` would stand still. */
export const databaseNow = `${epochMs('clock_timestamp()')} as now`

/** A moment as milliseconds since the epoch, in a type that every driver reads as a number. */
export function epochMs(expression: string): string {
  // Not extract(), which counts in numeric and is slower by far.
  return `(date_part('epoch', ${expression}) * 1000)`
}

/** For people: of microseconds, a session with `extra_float_digits = 0` may show another millisecond. */
export function wholeMs(expression: string): string {
  return `round(${epochMs(expression)})`
}

/** A moment so many milliseconds after another. */
export function after(moment: string, ms: string): string {
  return `${moment} + ${ms}::float8 * interval '1 millisecond'`
}

/**
 * Whether a lease or a turn has ended. One that ends later than an hour from now, and later than the longest of those who ask, was never so long: the
 * database's clock was ahead, and was set back.
 */
export function isOver(until: string, now: string, longestMs: string): string {
  return `(${until} <= ${now} or ${until} > ${afterColumn(now, `greatest(${longestMs}::float8, 3600000)`)})`
}

/** The same for a moment that is in a column, by functions that depend on no setting: Citus takes no others where a column is changed. */
function afterColumn(moment: string, ms: string): string {
  return `((${moment}) at time zone 'UTC' + ${ms}::float8 * interval '1 millisecond') at time zone 'UTC'`
}

/** The same for a retention, in which null is no limit. (Postgres has infinite timestamps, but infinite intervals only from 17 on.) */
export function afterRetention(moment: string, ms: string): string {
  return `case when ${ms}::float8 is null then 'infinity'::timestamptz else ${after(moment, ms)} end`
}

/** The same for a moment that is in a column. */
export function afterRetentionOf(column: string, ms: string): string {
  return `case when ${ms}::float8 is null then 'infinity'::timestamptz else ${afterColumn(column, ms)} end`
}

/** Until when a key waits that an operator lets wait again: its retention, counted anew. */
export const waitsAnewUntil = `case when reap_after < 'infinity' then greatest(expires_at,
      (statement_timestamp() at time zone 'UTC' + (reap_after at time zone 'UTC' - created_at at time zone 'UTC')) at time zone 'UTC')
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
    fingerprint: bytesOf(row.fingerprint),
    leaseUntil: row.lease_until,
    createdAt: row.created_at,
    expiresAt: row.expires_at ?? Number.POSITIVE_INFINITY,
    answer: row.answer_status === null || row.answer_left > 0 ? null : answerOf(row),
    reason: row.reason,
    request: bytesOf(row.request),
    hasRequest: row.request !== null || row.request_left > 0,
  }
}

export function answerOf(row: Row): Answer {
  const status: number = row.answer_status
  const sent: string | HeaderPair[] = row.answer_headers
  // In a packed record they are parsed already.
  const headers = typeof sent === 'string' ? (JSON.parse(sent) as HeaderPair[]) : sent
  const body = bytesOf(row.answer_body) ?? new Uint8Array()
  const omittedBytes: number | null = row.answer_omitted_bytes
  return omittedBytes === null ? { status, headers, body } : { status, headers, body, omittedBytes }
}

/** What is stored of an answer, with the types of its columns. */
const answerParts = {
  status: { type: 'smallint', of: ({ status }: Answer) => status },
  headers: { type: 'text', of: ({ headers }: Answer) => inAscii(JSON.stringify(headers)) },
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
