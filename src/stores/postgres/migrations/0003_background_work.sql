-- What background work goes by. The claim sets it once and a finish does not touch it, so finishes stay heap-only.
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
