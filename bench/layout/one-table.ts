import { type Field, unnestFields } from './fields.js'
import type { Layout } from './layouts.js'
import { scope, tenantCount } from './requests.js'

type Key = 'serial' | 'text' | 'digest'

const keyColumn = { serial: 'id bigint generated always as identity primary key,', text: '', digest: 'id uuid not null,' }
const constraint = {
  serial: 'unique (tenant, scope, key)',
  text: 'primary key (tenant, scope, key)',
  digest: 'primary key (tenant, id)',
}
const lookups: Record<Key, readonly Field[]> = {
  serial: ['tenant', 'scope', 'key'],
  text: ['tenant', 'scope', 'key'],
  digest: ['tenant', 'id'],
}

// Bytes of a row on its page, line pointer included (`pg_column_size`): as claimed, and as finished without the body.
const rowBytes = {
  serial: { claimed: 236, finished: 312 },
  text: { claimed: 228, finished: 304 },
  digest: { claimed: 244, finished: 320 },
}
const pageBytes = 8_192
const pageHeaderBytes = 24

interface Shape {
  name: string
  key: Key
  fillFactor: number
  indexes: readonly string[]
  contender: boolean
}

/** One row per key, updated in place by the finish. */
export function oneTable({ name, key, fillFactor, indexes, contender }: Shape): Layout {
  const lookup = lookups[key]
  const id: readonly Field[] = key === 'digest' ? ['id'] : []
  const claimFields: readonly Field[] = ['tenant', ...id, 'scope', 'key', 'incarnation', 'owner', 'fingerprint']
  // The hand-rolled layout finishes by the number that its claim returned, which is its cheapest way.
  const finishKey: readonly Field[] = key === 'serial' ? ['serial'] : lookup
  const finishFields: readonly Field[] = [...finishKey, 'incarnation', 'fence', 'status', 'headers', 'body']
  // As a parameter: with the word in the statement, the planner walks all of the serial layout's partial index for each batch.
  const processing = `$${finishFields.length + 1}::text`
  const inserted = claimFields.join(', ')
  const serialOf = (expression: string) => (key === 'serial' ? `${expression}::text` : 'null::text')
  const matches = (fields: readonly Field[], left: string, right: string) =>
    fields.map((field) => `${left}.${field === 'serial' ? 'id' : field} = ${right}.${field}`).join(' and ')

  return {
    name,
    fillFactor,
    contender,
    lookup,
    claimFields,
    finishFields,
    on: (table) => ({
      tables: [table],
      create: `
        create table ${table} (
          ${keyColumn[key]}
          incarnation uuid not null,
          owner uuid not null,
          locked_until timestamptz,
          created_at timestamptz not null,
          expires_at timestamptz not null,
          reap_after timestamptz not null,
          fence integer not null,
          answer_status smallint,
          tenant text collate "C" not null,
          scope text collate "C" not null,
          key text collate "C" not null,
          state text not null,
          recovery_point text,
          after_failure text not null,
          fingerprint bytea not null,
          answer_headers text,
          answer_body bytea,
          request bytea,
          ${constraint[key]}
        ) with (fillfactor = ${fillFactor}, autovacuum_enabled = off);
        ${indexes.map((index) => `create index on ${table} using ${index};`).join('\n')}`,

      claim: `
        with seen as materialized (
          select asked.*, held.incarnation as held_incarnation, held.fence, held.state, held.recovery_point, held.locked_until,
            held.fingerprint as held_fingerprint, held.answer_status, held.answer_headers, held.answer_body
            ${key === 'serial' ? ', held.id as held_id' : ''}
          from ${unnestFields(claimFields, 'asked')}
          left join ${table} held on ${matches(lookup, 'held', 'asked')}
        ), made as (
          insert into ${table} (${inserted}, state, after_failure, fence, locked_until, created_at, expires_at, reap_after)
          select ${inserted}, 'processing', 'retry', 1, clock_timestamp() + interval '30 seconds', clock_timestamp(),
            clock_timestamp() + interval '72 hours', clock_timestamp() + interval '96 hours'
          from seen where held_incarnation is null
          on conflict (${lookup.join(', ')}) do nothing
          returning *
        )
        select true as made, incarnation::text, fence, ${serialOf('made.id')}, null as state, null as recovery_point,
          null::timestamptz as locked_until, null::bytea as fingerprint, null::smallint, null as headers, null::bytea as body
        from made
        union all
        select false, held_incarnation::text, fence, ${serialOf('held_id')}, state, recovery_point,
          locked_until, held_fingerprint, answer_status, answer_headers, answer_body
        from seen where held_incarnation is not null`,

      finish: `
        update ${table} held
        set state = 'complete', locked_until = null, expires_at = clock_timestamp() + interval '72 hours',
          answer_status = done.status, answer_headers = done.headers, answer_body = done.body
        from ${unnestFields(finishFields, 'done')}
        where ${matches(finishKey, 'held', 'done')}
          and held.incarnation = done.incarnation and held.fence = done.fence and held.state = ${processing}
        returning held.incarnation`,

      fill: `
        insert into ${table} (tenant, ${id.length ? 'id,' : ''} scope, key, incarnation, owner, fingerprint, state, after_failure,
          fence, created_at, expires_at, reap_after, answer_status, answer_headers, answer_body)
        select 'tenant-' || number % ${tenantCount}, ${id.length ? 'gen_random_uuid(),' : ''} '${scope}', gen_random_uuid(),
          gen_random_uuid(), gen_random_uuid(), $5::bytea, 'complete', 'retry', 1, clock_timestamp(),
          clock_timestamp() + interval '72 hours', clock_timestamp() + interval '96 hours', 201, $3::text, $4::bytea
        from generate_series($1::bigint, $2::bigint) as number`,
      fillFactorOfFill(bodyBytes) {
        const rowsPerPage = Math.floor(((pageBytes * fillFactor) / 100 - pageHeaderBytes) / rowBytes[key].claimed)
        const finishedBytes = pageHeaderBytes + rowsPerPage * (rowBytes[key].finished + bodyBytes)
        return Math.min(100, Math.ceil((100 * finishedBytes) / pageBytes))
      },
      countFinished: `select count(*)::int as finished from ${table} where state = 'complete'`,
    }),
  }
}
