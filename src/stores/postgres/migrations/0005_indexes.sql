-- statements
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
