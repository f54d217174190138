import type { KeyRecord } from '../../../core/record.js'
import type { KeyClaim } from '../../../core/store.js'
import { arrayLiteral } from '../batching/array-literal.js'
import type { Queryable, Row } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import type { Found } from './key-claim.js'
import { after, afterRetention, databaseNow, recordColumns, recordOf, retentionValue } from './key-row.js'
import { audited } from './together.js'

export interface WantedKey {
  readonly id: string
  readonly claim: KeyClaim
}

/**
 * A key that somebody inserts in an open transaction would hold up all others of the batch: after this long each is asked for alone. Long
 * enough for the lock under which many writers extend the table, which counts too.
 */
const lockTimeout = '100ms'

/**
 * The claims of many requests in one statement: finds their keys, or inserts them, as `keyClaim` does for one. Each key once: their order
 * is that of the primary key, so that two batches do not wait for each other. Undefined as there: ask again.
 */
export function keysClaim(tables: Tables) {
  const { keys } = tables
  const columns = {
    ...{
      tenant: 'text',
      id: 'uuid',
      scope: 'text',
      key: 'text',
      owner: 'uuid',
      after_failure: 'text',
      fingerprint: 'bytea',
      request: 'bytea',
    },
    ...{ lease_ms: 'float8', kept_ms: 'float8' },
  } as const
  const names = Object.keys(columns) as (keyof typeof columns)[]
  const arrays = names.map((name, index) => `$${index + 1}::text::${columns[name]}[]`)
  const text = `
    with wanted as materialized (
      select wanted.* from unnest(${arrays.join(', ')}) as wanted (${names.join(', ')}),
             (select set_config('lock_timeout', '${lockTimeout}', true)) as patience
    ), existing as materialized (
      select key.* from wanted cross join lateral (
        select * from ${keys} as key where key.tenant = wanted.tenant and key.id = wanted.id offset 0
      ) as key
    ), inserted as (
      insert into ${keys} (tenant, id, scope, key, state, incarnation, owner, fence, after_failure, fingerprint, request,
                           created_at, locked_until, due_at, expires_at, reap_after)
      select tenant, id, scope, key, 'processing', owner, owner, 1, after_failure, fingerprint, request,
             clock.time, ${after('clock.time', 'lease_ms')}, ${after('clock.time', 'lease_ms')},
             ${afterRetention('clock.time', 'kept_ms')}, ${afterRetention('clock.time', 'kept_ms')}
      from wanted, (select clock_timestamp() as time) as clock
      where not exists (select from existing where existing.tenant = wanted.tenant and existing.id = wanted.id)
      order by wanted.tenant, wanted.id
      on conflict (tenant, id) do nothing
      returning *
    )${audited(tables, 'inserted', { what: `'claimed'`, detail: 'null::text' })}
    select true as inserted, ${databaseNow}, ${recordColumns} from inserted
    union all
    select false as inserted, ${databaseNow}, ${recordColumns} from existing`

  return async (db: Queryable, wanted: readonly WantedKey[]): Promise<readonly (Found | undefined)[]> => {
    const column = (value: (claim: KeyClaim, id: string) => string | number | Uint8Array | null) =>
      arrayLiteral(wanted.map(({ claim, id }) => value(claim, id)))
    const rows = await db.query(text, [
      column(({ tenant }) => tenant),
      column((_, id) => id),
      column(({ scope }) => scope),
      column(({ key }) => key),
      column(({ owner }) => owner),
      column(({ afterFailure }) => afterFailure),
      column(({ fingerprint }) => fingerprint?.bytes ?? null),
      column(({ request }) => request),
      column(({ leaseMs }) => leaseMs),
      column(({ retention }) => retentionValue(retention.ms)),
    ])
    const found = new Map<string, Row>(rows.map((row) => [row.id, row]))
    return wanted.map(({ id }) => {
      const row = found.get(id)
      return row && { record: recordOf(row) as KeyRecord, inserted: row.inserted, now: row.now }
    })
  }
}
