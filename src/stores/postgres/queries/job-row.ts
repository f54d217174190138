import type { TakenJob } from '../../../core/store.js'
import type { Row } from '../connections/connection.js'
import { after, epochMs } from './key-row.js'

/** From when on a job could have been delivered. One that was tried has a later `due_at`, so it counts from its staging. */
export const deliverableSince = `case when attempts = 0 then greatest(staged_at, due_at) else staged_at end`

/** What a take writes. It leaves everything alone that an index has. */
export function takenNow(token: string, leaseMs: string): string {
  return `token = ${token}::uuid, locked_until = ${after('clock_timestamp()', leaseMs)}, attempts = job.attempts + 1`
}

/** What `takenJob` reads, of a row that was just taken. */
export function takenColumns(job: string): string {
  return `${job}.tenant, ${job}.id::text as id, ${job}.name, ${job}.payload, ${job}.job_group, ${job}.attempts, ${job}.position,
        ${epochMs(`${job}.staged_at`)} as staged_at,
        ${epochMs(`clock_timestamp() - case when ${job}.attempts = 1 then greatest(${job}.staged_at, ${job}.due_at) else ${job}.staged_at end`)} as lag_ms`
}

export function takenJob({ tenant, id, name, payload, job_group, attempts, staged_at, lag_ms }: Row): TakenJob {
  return { tenant, id, name, payload, group: job_group, attempt: attempts, stagedAt: staged_at, lagMs: Math.max(0, lag_ms) }
}

/**
 * Up to where a take has looked at jobs without a group. If it found all there are: less the time that a commit usually takes from its
 * staging on. The next one begins there, so that the jobs that were delivered and deleted since the last vacuum are not read over and over.
 */
export function lookedUpTo(wasAll: string): string {
  return `(case when ${wasAll} then (select time from clock) - interval '1 second' else max(due_at) end)::text`
}
