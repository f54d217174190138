import type { KeyRecord } from '../../../core/record.js'
import type { KeyClaim } from '../../../core/store.js'
import { batchRows, byColumn, type Columns } from '../batching/batch-rows.js'
import type { Bounded } from '../bounded.js'
import type { Row } from '../connections/connection.js'
import { type Statements, tableBytes } from '../plans.js'
import type { Tables } from '../tables.js'
import { inKeyOrder } from './key-list.js'
import {
  afterRetention,
  answerSize,
  type Beginning,
  databaseNow,
  packedRecord,
  recordColumns,
  recordOf,
  requestSize,
  retentionValue,
  smallAnswer,
  smallRequest,
  unpackedRecord,
} from './key-row.js'
import { audited, idsOf } from './together.js'

/** What the claim found, and the database's time when it looked. `inserted`: the row is new, and ours. */
export interface Found {
  readonly record: KeyRecord
  readonly inserted: boolean
  readonly now: number
  /** The bytes of what the record has, but is too large to come along. */
  readonly left: { readonly answer: number; readonly request: number }
}

const nothingLeft = { answer: 0, request: 0 } as const

export function foundIn(row: Row, now: number): Found {
  return { record: recordOf(row), inserted: false, now, left: { answer: row.answer_left, request: row.request_left } }
}

function begun(claim: KeyClaim, id: string, begin: Beginning, now: number): Found {
  return { record: begunBy(claim, id, begin, now), inserted: true, now, left: nothingLeft }
}

export interface WantedKey {
  readonly id: string
  readonly claim: KeyClaim
}

/** What a claim brings along, as columns of the statement. */
const columns = {
  tenant: { type: 'text', of: ({ claim }) => claim.tenant },
  id: { type: 'uuid', of: ({ id }) => id },
  scope: { type: 'text', of: ({ claim }) => claim.scope },
  key: { type: 'text', of: ({ claim }) => claim.key },
  owner: { type: 'uuid', of: ({ claim }) => claim.owner },
  after_failure: { type: 'text', of: ({ claim }) => claim.afterFailure },
  fingerprint: { type: 'bytea', of: ({ claim }) => claim.fingerprint?.bytes ?? null },
  request: { type: 'bytea', of: ({ claim }) => claim.request },
  kept_ms: { type: 'float8', of: ({ claim }) => retentionValue(claim.retention.ms) },
  // The last one, because a key that is left to workers has no lease, and Postgres takes no parameter that is not used.
  lease_ms: { type: 'float8', of: ({ claim }) => claim.leaseMs },
} satisfies Columns<WantedKey>
type Name = keyof typeof columns
const names = Object.keys(columns) as Name[]
const alone = byColumn(names, (name, index) => `$${index + 1}::${columns[name].type}`)

/**
 * A key that another session inserts in an open transaction would hold up all others of the batch: after this long each is asked for alone. Long
 * enough for the lock under which many writers extend the table, which counts too.
 */
const lockTimeout = '100ms'

/** The same for the statements of other batches. Lasts for this statement only, so that no session keeps it. */
export const patience = `(select set_config('lock_timeout', '${lockTimeout}', true)) as patience`

/**
 * Finds the key, or inserts it as this claim's, in one statement and one round trip. A key that exists is only read: a
 * replay writes nothing, no WAL and no dead tuple. And it waits for no other session: an insert that came first would stand behind any
 * transaction that is changing the row.
 *
 * Comes back empty when another transaction commits the same key between this statement's snapshot and its insert:
 * then the row is there for the next look. Behind a transaction that has inserted the key and is still open it waits, up to `lock_timeout`.
 */
export function keyClaim(tables: Tables, begin: Beginning) {
  const parameters = begin.async ? names.slice(0, -1) : names
  // Volatile, so it is executed although its value is not used, but only once the key is known to be absent.
  const clock = `(select clock_timestamp() as time, set_config('lock_timeout', '${lockTimeout}', true)) as clock`
  const text = claimText(tables, begin, { before: '', clock, from: '' })
  // A transaction of the user's own gets its setting back.
  const within = claimText(tables, begin, {
    before: `patience as materialized (
      select before, set_config('lock_timeout', $${parameters.length + 1}::text, true)
      from (select current_setting('lock_timeout') as before offset 0) as setting
    ), `,
    clock: '(select clock_timestamp() as time from patience offset 0) as clock',
    from: `
    from (select exists (select from inserted) as inserted offset 0) as always cross join lateral
         (select set_config('lock_timeout', patience.before, always.inserted is not null) from patience offset 0) as restored`,
  })

  return async (db: Bounded, id: string, claim: KeyClaim, { isWithin = false } = {}): Promise<Found | undefined> => {
    const wanted = { id, claim }
    const values = parameters.map((name) => columns[name].of(wanted))
    const waitMs = Math.max(1, Math.floor(db.leftMs() * shareOfWait))
    const [row] = (await (isWithin
      ? db.query(within, [...values, `${waitMs}ms`], { often: true })
      : db.query(text, values, { often: true }))) as [Row]
    if (row.inserted) return begun(claim, id, begin, row.now)
    return row.found === null ? undefined : foundIn(unpackedRecord(row.found, claim.tenant, id), row.now)
  }
}

/** The server gives up first, so that the connection is in a known state, and the user's transaction can go on. */
const shareOfWait = 0.9

interface ClaimTextParts {
  /** CTEs. */
  readonly before: string
  /** Where the time of the insert comes from. */
  readonly clock: string
  readonly from: string
}

/**
 * Most keys are new, so the statement is made for them: four columns come back, and what there is to be said of a key that exists is packed into one. With a
 * column for each, a new key cost the server a third more (docs/decisions/0009).
 */
function claimText(tables: Tables, begin: Beginning, { before, clock, from }: ClaimTextParts): string {
  const { keys } = tables
  return `
    with ${before}existing as materialized (
      select ${packedRecord} as record from ${keys} as key where key.tenant = ${alone.tenant} and key.id = ${alone.id}
    ), inserted as (${insertion(tables, begin, alone, { from: clock, where: 'not exists (select from existing)' })}
    )${audited(tables, 'inserted', { what: begin.what, detail: 'null::text' })}
    select exists (select from inserted) as inserted, (select record from existing) as found, ${databaseNow}, ${tableBytes(keys)}${from}`
}

/**
 * The claims of many requests in one statement. Each key once. They are looked up by a subquery that the planner cannot pull up, and that can only
 * go key by key. A row comes back for each key that was there already, or one that has none. Each of them tells which keys are new: null is
 * all that were not there. Else another transaction was faster with some of them.
 *
 * They are inserted in the order in which they are sent, that of the primary key, so that two batches do not wait for each other.
 */
export function keysClaim(tables: Tables, begin: Beginning) {
  const { keys } = tables
  const batch = batchRows('wanted', columns)
  const ofBatch = byColumn(names, (name) => `looked.wanted_${name}`)
  const text = `
    with looked as materialized (
      select ${names.map((name) => `${batch.value[name]} as wanted_${name}`).join(', ')}, key.*
      from ${batch.source}
      left join lateral (select * from ${keys} as key where key.tenant = wanted.tenant and key.id = wanted.id offset 0) as key on true,
           ${patience}
    ), inserted as (${insertion(tables, begin, ofBatch, { from: `looked, ${clock}`, where: 'looked.id is null' })}
    ), known as materialized (
      select looked.*, ${soFar} as so_far from looked where looked.id is not null
    )${audited(tables, 'inserted', { what: begin.what, detail: 'null::text' })}
    select new.bytes, new.now, new.count < (select count(*) from looked where id is null) as lost,
           ${inFirstRow} and new.count < (select count(*) from looked where id is null) then ${idsOf('inserted')} end as ids,
           ${inFirstRow} then (select string_agg(id::text, ' ') from known where known.so_far > ${mostBytes}) end as others,
           ${recordColumns()}
    from (select count(*) as count, ${tableBytes(keys)}, ${databaseNow} from inserted) as new
         left join known on known.so_far <= ${mostBytes}`
  const lookAt = batchRows('wanted', { tenant: columns.tenant, id: columns.id })
  const othersText = `
    with known as materialized (
      select key.*, ${soFar} as so_far from ${lookAt.source}
      cross join lateral (select * from ${keys} as key where key.tenant = wanted.tenant and key.id = wanted.id offset 0) as key
    )
    select ${databaseNow}, ${recordColumns(`known.so_far <= ${mostBytesOfLook}`)} from known`

  return async (db: Statements, wanted: readonly WantedKey[]): Promise<readonly (Found | undefined)[]> => {
    const rows = await db.query(text, batch.valuesOf(wanted.toSorted(byKey)), { often: true })
    const { now, lost } = rows[0] as Row
    const others: string | undefined = rows.find((row) => row.others !== null)?.others
    const ids: string | undefined = rows.find((row) => row.ids !== null)?.ids
    const known = new Map(rows.filter(({ id }) => id !== null).map((row) => [row.id as string, foundIn(row, now)]))
    if (others) for (const row of await lookAtOthers(db, wanted, others)) known.set(row.id, foundIn(row, row.now))
    const inserted = lost ? new Set(ids?.split(' ')) : null
    return wanted.map(({ id, claim }) => {
      const found = known.get(id)
      if (found) return found
      const isNew = inserted === null || inserted.has(id)
      return isNew ? begun(claim, id, begin, now) : undefined
    })
  }

  /** Those that were there, and that the statement with the insert had no room for. */
  function lookAtOthers(db: Statements, wanted: readonly WantedKey[], ids: string): Promise<readonly Row[]> {
    const others = new Set(ids.split(' '))
    return db.query(othersText, lookAt.valuesOf(wanted.filter(({ id }) => others.has(id)).toSorted(byKey)), { often: true })
  }
}

/** What is about all rows need not come with each of them. */
const inFirstRow = 'case when (known.so_far is null or known.so_far = (select min(so_far) from known))'

const namesSize = `octet_length(tenant) + octet_length(scope) + octet_length(key)
      + coalesce(octet_length(recovery_point), 0) + coalesce(octet_length(reason), 0)`

/** The bytes of the rows up to this one: their names, answers and requests, and about as much as the rest of a row takes. */
const soFar = `sum(600 + ${namesSize} + case when ${answerSize} <= ${smallAnswer} then ${answerSize} else 0 end
      + case when ${requestSize} <= ${smallRequest} then ${requestSize} else 0 end) over (rows unbounded preceding)`

/** Of a statement that writes: in base64, less than 64 KiB. */
const mostBytes = 44 * 1024
/** Of a statement that only reads. */
const mostBytesOfLook = 4 * 1024 * 1024

const byKey = (one: WantedKey, other: WantedKey) => inKeyOrder(one.claim.tenant, one.id, other.claim.tenant, other.id)

const clock = '(select clock_timestamp() as time) as clock'

/** `value` is the SQL of each column of the claim. `from` has the `clock`, with the time of the insert. */
function insertion(
  tables: Tables,
  begin: Beginning,
  value: Readonly<Record<Name, string>>,
  { from, where }: { readonly from: string; readonly where: string },
): string {
  const { keys } = tables
  const leaseMs = value.lease_ms
  const keptUntil = afterRetention('clock.time', value.kept_ms)
  return `
      insert into ${keys} (tenant, id, scope, key, state, incarnation, owner, fence, after_failure, fingerprint, request,
                           async, waiting, created_at, locked_until, due_at, expires_at, reap_after)
      select ${value.tenant}, ${value.id}, ${value.scope}, ${value.key}, ${begin.state}, ${value.owner}, ${value.owner}, ${begin.fence},
             ${value.after_failure}, ${value.fingerprint}, ${value.request}, ${begin.async}, ${begin.async},
             clock.time, ${begin.lockedUntil(leaseMs)}, ${begin.dueAt(leaseMs)}, ${keptUntil}, ${keptUntil}
      from ${from}
      where ${where}
      on conflict (tenant, id) do nothing
      returning ${tables.audit ? 'tenant, id, incarnation, fence' : 'id'}`
}

/** The record that a claim has just inserted: all of it is the claim's own word, so none of it is sent back. */
export function begunBy(claim: KeyClaim, id: string, begin: Beginning, now: number): KeyRecord {
  const { tenant, scope, key, owner, afterFailure, fingerprint, request, leaseMs, retention } = claim
  return {
    tenant,
    id,
    scope,
    key,
    state: begin.async ? 'pending' : 'processing',
    incarnation: owner,
    fence: begin.fence,
    owner,
    recoveryPoint: null,
    afterFailure,
    async: begin.async,
    attempts: 0,
    fingerprint: fingerprint?.bytes ?? null,
    leaseUntil: begin.async ? null : now + leaseMs,
    createdAt: now,
    expiresAt: now + retention.ms,
    answer: null,
    reason: null,
    request,
    hasRequest: request !== null,
  }
}
