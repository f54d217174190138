// Made from the .sql files beside it by scripts/compile-migrations.mjs. Do not edit.

import type { Migration } from './migration.js'

export const migrations: readonly Migration[] = [
  {
    version: 1,
    name: 'create_keys',
    breaking: false,
    sql: `-- One row for each key. A claim inserts it, heartbeats and the finish update it, the reaper deletes it.
--
-- Indexes: only on columns that no update changes (tenant, id, reap_after), so that heartbeats and finishes stay
-- heap-only (HOT) and write no index at all. docs/decisions/0002-table-layout.md has the numbers.
create table :schema.keys (
  created_at           timestamptz not null,
  -- Means something once the key is complete or failed. 'infinity' for a key that is kept for ever.
  expires_at           timestamptz not null,
  -- The earliest moment at which the row can be expired: set with the incarnation, never moved by a finish.
  reap_after           timestamptz not null,
  -- The holder's lease. Null unless the key is processing.
  locked_until         timestamptz,
  -- Raised by each claim of this incarnation. Every later write of the holder carries it.
  fence                integer     not null,
  answer_status        smallint,
  async                boolean     not null default false,
  -- 122 bits of SHA-256 over tenant, scope and key: short to index, made by the client.
  id                   uuid        not null,
  -- This life of the key: a new one when an expired key is used again.
  incarnation          uuid        not null,
  -- The token of the claim that holds the key or held it last: a claim whose acknowledgement was lost knows itself by it.
  owner                uuid        not null,
  tenant               text        not null collate "C",
  scope                text        not null collate "C",
  key                  text        not null collate "C",
  state                text        not null collate "C"
    check (state in ('pending', 'processing', 'complete', 'failed', 'parked')),
  after_failure        text        not null collate "C",
  -- The last phase or call that is committed.
  recovery_point       text,
  fingerprint          bytea,
  -- Why the key was released, failed or parked, for people.
  reason               text,
  -- A JSON list of [name, value]: order kept, names may repeat.
  answer_headers       text,
  answer_body          bytea,
  -- Size of a body that was over the cap and not kept.
  answer_omitted_bytes integer,
  -- The request as it came in, if it is kept for workers to run again.
  request              bytea,

  -- The tenant leads every index and every WHERE, so that the table can be distributed by tenant.
  primary key (tenant, id),
  check ((answer_status is not null) = (state in ('complete', 'failed', 'parked'))),
  check ((locked_until is not null) = (state = 'processing'))
) with (fillfactor = 30, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

create index keys_reap_after on :schema.keys (reap_after) where reap_after < 'infinity';
`,
  },
  {
    version: 2,
    name: 'create_steps',
    breaking: false,
    sql: `-- What resumable operations leave behind: the results of their phases and calls, the jobs they stage, and, if it is asked for,
-- a trail of what happened to each key. All of them lead with the tenant, like the keys.

-- The call whose outcome a parked key waits for.
alter table :schema.keys add column parked_step text;

create table :schema.steps (
  tenant      text        not null collate "C",
  key_id      uuid        not null,
  -- Steps of an earlier life of the key are nobody's business.
  incarnation uuid        not null,
  name        text        not null collate "C",
  -- The order in which steps were recorded within this life.
  position    integer     not null,
  kind        text        not null collate "C" check (kind in ('phase', 'call', 'refused', 'intent', 'cleared')),
  -- JSON as text: jsonb would refuse an escaped NUL and reorder members.
  result      text,
  fence       integer     not null,
  recorded_at timestamptz not null,
  primary key (tenant, key_id, incarnation, name)
);

create table :schema.jobs (
  tenant      text        not null collate "C",
  id          uuid        not null,
  key_id      uuid        not null,
  incarnation uuid        not null,
  name        text        not null collate "C",
  payload     text        not null,
  staged_at   timestamptz not null,
  primary key (tenant, id)
);

create table :schema.audit (
  tenant      text        not null collate "C",
  id          uuid        not null default gen_random_uuid(),
  key_id      uuid        not null,
  incarnation uuid        not null,
  fence       integer     not null,
  at          timestamptz not null,
  what        text        not null collate "C",
  detail      text,
  primary key (tenant, id)
);

create index audit_key on :schema.audit (tenant, key_id, at);
`,
  },
  {
    version: 3,
    name: 'background_work',
    breaking: false,
    sql: `-- What background work goes by. The claim sets it once and a finish does not touch it, so finishes stay heap-only.
--
-- The defaults serve processes of the release before: they write rows without these columns until 0007. On large tables 0005 to 0008 do what
-- takes time: indexes, rows, checks.

-- When somebody should look whether the key is still being worked on: at the end of its first lease, then whenever the sweeper says.
-- Of a key that waits: when a worker may take it. (Rows from before this release: those that are held, now. Nobody looks at the others.)
alter table :schema.keys add column due_at timestamptz not null default '-infinity';
-- True while the key is pending: it waits for a client that comes back, or for a worker.
alter table :schema.keys add column waiting boolean not null default false;
-- How often a worker, and not a client, has taken the key.
alter table :schema.keys add column attempts integer not null default 0;

-- How far the sweeper has looked, and whose turn it is. One row for each kind of upkeep.
create table :schema.upkeep (
  name       text        primary key,
  -- No key that was due before this is held by somebody who is gone.
  frontier   timestamptz not null,
  -- The process that does it now. Its turn ends by itself, should it die.
  holder     uuid,
  held_until timestamptz not null default '-infinity'
);
insert into :schema.upkeep (name, frontier) values ('sweep', 'epoch');
`,
  },
  {
    version: 4,
    name: 'outbox',
    breaking: false,
    sql: `-- What the relay needs of a job. Staging is on the commit path of requests: a job is in the primary key and in one index more (0005).
--
-- A take changes none of the columns below that an index or its condition has, so it is heap-only (HOT) as long as its page has room: that
-- is what the fillfactor is for. A delivered job is deleted. docs/decisions/0010-outbox.md has the numbers.

-- Jobs of one group (of a tenant) are delivered one after the other.
alter table :schema.jobs add column job_group text collate "C";
-- The order in which jobs of one commit were staged.
alter table :schema.jobs add column position integer not null default 0;
-- When it may be taken. (Jobs of a process from before this release: at once.)
alter table :schema.jobs add column due_at timestamptz not null default '-infinity';
-- How often it was taken.
alter table :schema.jobs add column attempts integer not null default 0;
-- The lease of the relay that has it, and the token of the take: who does not have it any more cannot settle the job.
alter table :schema.jobs add column locked_until timestamptz;
alter table :schema.jobs add column token uuid;
-- When it was given up, for a person to look at.
alter table :schema.jobs add column dead_at timestamptz;
-- What the last delivery failed with, for people.
alter table :schema.jobs add column last_error text;
alter table :schema.jobs set (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.05);
`,
  },
  {
    version: 5,
    name: 'indexes',
    breaking: false,
    mode: 'statements',
    sql: `-- statements
-- The indexes of background work and of the outbox.

-- Only for this upgrade, until 0008: what 0006 and 0007 change, without reading the whole table.
create index concurrently keys_unfinished on :schema.keys (tenant, id) where state in ('pending', 'processing');

create index concurrently keys_due_at on :schema.keys (due_at);
-- Small, and untouched by requests that succeed: only keys that wait are in it.
create index concurrently keys_waiting on :schema.keys (scope, due_at) where waiting;

create index concurrently jobs_due on :schema.jobs (due_at) where job_group is null and dead_at is null;
create index concurrently jobs_groups on :schema.jobs (tenant, job_group, staged_at, position, id) where job_group is not null and dead_at is null;
-- Small: only what was given up is in it.
create index concurrently jobs_dead on :schema.jobs (tenant, job_group) where dead_at is not null;
`,
  },
  {
    version: 6,
    name: 'unfinished_keys',
    breaking: false,
    mode: 'batches',
    sql: `-- batches
-- Keys of the release before that wait, or that are held. Rows that others have locked are left to 0007.
with found as (
  select tenant, id from :schema.keys where state = 'pending' and not waiting
  limit 500 for no key update skip locked
)
update :schema.keys as keys set waiting = true from found where keys.tenant = found.tenant and keys.id = found.id returning keys.id;

with found as (
  select tenant, id from :schema.keys where state = 'processing' and due_at = '-infinity'
  limit 500 for no key update skip locked
)
update :schema.keys as keys set due_at = statement_timestamp() from found where keys.tenant = found.tenant and keys.id = found.id returning keys.id;
`,
  },
  {
    version: 7,
    name: 'background_checks',
    breaking: true,
    sql: `-- breaking
-- From here on each row says when it is due and whether it waits. Processes of the release before do not know of it, and fail.

-- First, because it locks the table: nobody writes the rows below any more.
alter table :schema.keys alter column due_at drop default;
-- The few rows since 0006, found by the indexes keys_unfinished and keys_waiting.
update :schema.keys set waiting = true where state = 'pending' and not waiting;
update :schema.keys set waiting = false where waiting and state <> 'pending';
update :schema.keys set due_at = statement_timestamp() where state = 'processing' and due_at = '-infinity';
-- Not valid: for now it is only about new rows. The name is the one that Postgres gives it.
alter table :schema.keys drop constraint if exists keys_check2;
alter table :schema.keys add constraint keys_check2 check (waiting = (state = 'pending')) not valid;
`,
  },
  {
    version: 8,
    name: 'background_checked',
    breaking: false,
    mode: 'statements',
    sql: `-- statements
alter table :schema.keys validate constraint keys_check2;
drop index concurrently if exists :schema.keys_unfinished;
`,
  },
]
