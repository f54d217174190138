-- What resumable operations leave behind: the results of their phases and calls, the jobs they stage, and, if it is asked for,
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
