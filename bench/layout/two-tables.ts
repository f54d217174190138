import { type Field, unnestFields } from './fields.js'
import type { Layout } from './layouts.js'
import { scope, tenantCount } from './requests.js'

const claimFields: readonly Field[] = ['tenant', 'id', 'scope', 'key', 'incarnation', 'owner', 'fingerprint']
const finishFields: readonly Field[] = ['tenant', 'id', 'incarnation', 'fence', 'status', 'headers', 'body']

/** A row for the claim and another for the answer; nothing is updated. */
export function twoTables({ name, contender }: { name: string; contender: boolean }): Layout {
  return {
    name,
    fillFactor: 100,
    contender,
    lookup: ['tenant', 'id'],
    claimFields,
    finishFields,
    on(copy) {
      const claims = `${copy}_claims`
      const answers = `${copy}_answers`
      return {
        tables: [claims, answers],
        create: `
          create table ${claims} (
            id uuid not null,
            incarnation uuid not null,
            owner uuid not null,
            locked_until timestamptz,
            created_at timestamptz not null,
            reap_after timestamptz not null,
            fence integer not null,
            tenant text collate "C" not null,
            scope text collate "C" not null,
            key text collate "C" not null,
            state text not null,
            recovery_point text,
            after_failure text not null,
            fingerprint bytea not null,
            request bytea,
            primary key (tenant, id)
          ) with (autovacuum_enabled = off);
          create index on ${claims} (reap_after);
          create table ${answers} (
            id uuid not null,
            incarnation uuid not null,
            expires_at timestamptz not null,
            fence integer not null,
            answer_status smallint not null,
            tenant text collate "C" not null,
            state text not null,
            answer_headers text not null,
            answer_body bytea not null,
            primary key (tenant, id)
          ) with (autovacuum_enabled = off);`,

        claim: `
          with seen as materialized (
            select asked.*, held.incarnation as held_incarnation, held.fence, coalesce(done.state, held.state) as state,
              held.recovery_point, held.locked_until, held.fingerprint as held_fingerprint,
              done.answer_status, done.answer_headers, done.answer_body
            from ${unnestFields(claimFields, 'asked')}
            left join ${claims} held on held.tenant = asked.tenant and held.id = asked.id
            left join ${answers} done on done.tenant = held.tenant and done.id = held.id and done.incarnation = held.incarnation
          ), made as (
            insert into ${claims} (${claimFields.join(', ')}, state, after_failure, fence, locked_until, created_at, reap_after)
            select ${claimFields.join(', ')}, 'processing', 'retry', 1, clock_timestamp() + interval '30 seconds',
              clock_timestamp(), clock_timestamp() + interval '96 hours'
            from seen where held_incarnation is null
            on conflict (tenant, id) do nothing
            returning *
          )
          select true as made, incarnation::text, fence, null::text, null as state, null as recovery_point,
            null::timestamptz as locked_until, null::bytea as fingerprint, null::smallint, null as headers, null::bytea as body
          from made
          union all
          select false, held_incarnation::text, fence, null::text, state, recovery_point,
            locked_until, held_fingerprint, answer_status, answer_headers, answer_body
          from seen where held_incarnation is not null`,

        // Without the lock a takeover could raise the fence between this statement's snapshot and its commit.
        finish: `
          with held as materialized (
            select done.*
            from ${unnestFields(finishFields, 'done')}
            join ${claims} claim on claim.tenant = done.tenant and claim.id = done.id
              and claim.incarnation = done.incarnation and claim.fence = done.fence and claim.state = $${finishFields.length + 1}::text
            for no key update of claim
          )
          insert into ${answers} (tenant, id, incarnation, fence, state, expires_at, answer_status, answer_headers, answer_body)
          select tenant, id, incarnation, fence, 'complete', clock_timestamp() + interval '72 hours', status, headers, body
          from held
          on conflict (tenant, id) do nothing
          returning incarnation`,

        fill: `
          with made as (
            insert into ${claims} (tenant, id, scope, key, incarnation, owner, fingerprint, state, after_failure,
              fence, created_at, reap_after)
            select 'tenant-' || number % ${tenantCount}, gen_random_uuid(), '${scope}', gen_random_uuid(),
              gen_random_uuid(), gen_random_uuid(), $5::bytea, 'processing', 'retry', 1, clock_timestamp(),
              clock_timestamp() + interval '96 hours'
            from generate_series($1::bigint, $2::bigint) as number
            returning tenant, id, incarnation
          )
          insert into ${answers} (tenant, id, incarnation, fence, state, expires_at, answer_status, answer_headers, answer_body)
          select tenant, id, incarnation, 1, 'complete', clock_timestamp() + interval '72 hours', 201, $3::text, $4::bytea
          from made`,
        fillFactorOfFill: () => 100,
        countFinished: `select count(*)::int as finished from ${answers}`,
      }
    },
  }
}
