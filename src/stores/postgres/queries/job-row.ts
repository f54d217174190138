import type { TakenJob } from '../../../core/store.js'
import type { Row } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { epochMs, wholeMs } from './key-row.js'

/**
 * When a job became a dead letter, in whole milliseconds everywhere: `extra_float_digits` may cut off what is smaller, and then pages would
 * overlap and a job that an operator saw would not be found again.
 */
export const deadMs = wholeMs('job.dead_at')

/** From when on a job could have been delivered. One that was tried has a later `due_at`, so it counts from its staging. */
export const deliverableSince = `case when attempts = 0 then greatest(staged_at, due_at) else staged_at end`

/** How many bytes a take returns, but for names that are very long. More would wait in the server for a process that is frozen, and the take with it, uncommitted. */
export const takenBytesAtOnce = 65_536

/** What a job takes besides its payload. */
export const jobBytes = '200 + octet_length(job.tenant) + octet_length(job.name) + coalesce(octet_length(job.job_group), 0)'

/** A moment so many milliseconds after another, in a form that may stand in an UPDATE of a distributed table. */
export function later(moment: string, ms: string): string {
  return `(${moment} at time zone 'UTC' + ${ms}::float8 * interval '1 millisecond') at time zone 'UTC'`
}

/** What a take writes. It leaves everything alone that an index has. `now` is the moment of the take. */
export function takenNow(token: string, now: string, leaseMs: string): string {
  return `token = ${token}::uuid, locked_until = ${later(now, leaseMs)}, attempts = job.attempts + 1`
}

/** The size of a payload as it is stored, without reading it. */
export const payloadBytes = 'octet_length(job.payload)'

/**
 * An array that was sent as a text. In a subquery of its own, so that the planner assumes ten elements, however many there are: then it goes by the
 * primary key, also in a table of which it knows nothing.
 */
export function sentArray(parameter: string, type: string): string {
  return `(select ${parameter}::text::${type}[])`
}

/**
 * Rows of `wanted` whose job is `isWanted` and not locked by another session, with the lock that a delete needs: a write to them waits for nothing.
 * Distributed tables cannot lock so: there the write itself finds out, and waits. It repeats the condition in any case.
 */
export function unlocked({ jobs, distributed }: Tables, isWanted: string): string {
  if (distributed) return 'select wanted.* from wanted'
  return `
      select wanted.* from wanted cross join lateral (
        select from ${jobs} as job where ${isWanted} offset 0 for update of job skip locked
      ) as job`
}

/** What `takenJob` reads of a job that was just taken at `now`. */
export function takenColumns(now: string): string {
  return `job.tenant, job.id::text as id, job.name, job.job_group, job.attempts, job.position,
      ${epochMs('job.staged_at')} as staged_at, ${payloadBytes}::float8 as payload_bytes,
      ${epochMs(`${now} - case when job.attempts = 1 then greatest(job.staged_at, job.due_at) else job.staged_at end`)} as lag_ms`
}

export function takenJob(row: Row): TakenJob {
  return {
    tenant: row.tenant,
    id: row.id,
    name: row.name,
    payload: row.payload,
    payloadBytes: row.payload_bytes,
    group: row.job_group,
    attempt: row.attempts,
    stagedAt: row.staged_at,
    lagMs: Math.max(0, row.lag_ms),
  }
}
