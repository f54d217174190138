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
  return Object.entries(recordParts(ridesAlong))
    .map(([name, sql]) => `${sql} as ${name}`)
    .join(', ')
}

/**
 * The same as one text, which `unpackedRecord` reads. Each column of a result costs the server and the driver, also where it is empty: for a statement
 * that mostly finds nothing.
 */
export const packedRecord = `json_build_array(${Object.entries(recordParts('true'))
  // As the JSON that it is: as a text in JSON, its quotes would take twice their bytes.
  .map(([name, sql]) => (name === 'answer_headers' ? `(${sql})::json` : sql))
  .join(', ')})::text`

const packedNames = Object.keys(recordParts('true'))

export function unpackedRecord(packed: string): Row {
  const values: unknown[] = JSON.parse(packed)
  const row: Row = {}
  for (const [index, name] of packedNames.entries()) row[name] = values[index]
  return row
}

function recordParts(ridesAlong: string) {
  const hasAnswer = `${ridesAlong} and ${answerSize} <= ${smallAnswer}`
  const hasRequest = `${ridesAlong} and ${requestSize} <= ${smallRequest}`
  return {
    tenant: 'tenant',
    id: 'id::text',
    scope: 'scope',
    key: 'key',
    state: 'state',
    incarnation: 'incarnation::text',
    fence: 'fence',
    owner: 'owner::text',
    recovery_point: 'recovery_point',
    after_failure: 'after_failure',
    async: 'async',
    attempts: 'attempts',
    fingerprint: bytesText('fingerprint'),
    reason: 'reason',
    lease_until: epochMs('locked_until'),
    created_at: epochMs('created_at'),
    expires_at: `case when expires_at < 'infinity' then ${epochMs('expires_at')} end`,
    request: `case when ${hasRequest} then ${bytesText('request')} end`,
    request_left: `case when not (${hasRequest}) then ${requestSize} else 0 end`,
    answer_status: 'answer_status',
    answer_omitted_bytes: 'answer_omitted_bytes',
    answer_headers: `case when ${hasAnswer} then answer_headers end`,
    answer_body: `case when ${hasAnswer} then ${bytesText('answer_body')} end`,
    answer_left: `case when not (${hasAnswer}) then ${answerSize} else 0 end`,
  }
}

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

/** The same for a retention, in which null is for ever. (Postgres has infinite timestamps, but infinite intervals only from 17 on.) */
export function afterRetention(moment: string, ms: string): string {
  return `case when ${ms}::float8 is null then 'infinity'::timestamptz else ${after(moment, ms)} end`
}

/** The same for a moment that is in a column. */
export function afterRetentionOf(column: string, ms: string): string {
  return `case when ${ms}::float8 is null then 'infinity'::timestamptz else ${afterColumn(column, ms)} end`
}

/** When nobody need wait any more for a key that a person lets wait again: its retention, counted anew. */
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
  const headers: HeaderPair[] = typeof sent === 'string' ? JSON.parse(sent) : sent
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
