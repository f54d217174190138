-- One row for each key. A claim inserts it, heartbeats and the finish update it, the reaper deletes it.
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
