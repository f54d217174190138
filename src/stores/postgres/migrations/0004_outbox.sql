-- What the relay needs of a job. Staging is on the commit path of requests: a job is in the primary key and in one index more (0005).
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
