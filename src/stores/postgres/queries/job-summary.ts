import type { JobRef } from '../../../core/store.js'
import type { Row } from '../connections/connection.js'
import { deadMs } from './job-row.js'
import { wholeMs } from './key-row.js'

/**
 * `waiting`: a relay may take it, or will when those before it in its group are delivered. `held`: a relay has it. `delayed`: its time has
 * not come, because it was staged so or failed. `dead`: given up, for a person to look at.
 */
export type JobState = 'waiting' | 'held' | 'delayed' | 'dead'

/** What each state means, in SQL over a job and `clock`, the moment at which it is looked at. Each job is in one of them. */
export const jobStates: Record<JobState, string> = {
  waiting: `job.dead_at is null and (job.locked_until is null or job.locked_until <= clock.time) and job.due_at <= clock.time`,
  held: `job.dead_at is null and job.locked_until > clock.time`,
  delayed: `job.dead_at is null and (job.locked_until is null or job.locked_until <= clock.time) and job.due_at > clock.time`,
  dead: `job.dead_at is not null`,
}

/** The dead letter as an operator saw it. A change that is based on it happens only if this is still so. */
export type SeenJob = Pick<JobSummary, 'tenant' | 'id' | 'deadAt'>

/** What an operator sees of a job at a glance: all of it but the payload. */
export interface JobSummary extends JobRef {
  /** The database's time when it was read. */
  readonly now: number
  readonly name: string
  readonly group: string | null
  readonly state: JobState
  /** How often it was taken, since it was staged or a person retried it. */
  readonly attempts: number
  readonly stagedAt: number
  /** When it may be taken. Null for a job from before there was a relay: at once. */
  readonly dueAt: number | null
  /** The lease of the relay that took it last; null if that has settled it. */
  readonly leaseUntil: number | null
  readonly deadAt: number | null
  /** What the last delivery failed with. */
  readonly error: string | null
}

/** One moment for the whole statement, so that no job is in two states or in none. */
export const clock = 'clock as materialized (select clock_timestamp() as time)'

export const jobColumns = `
  ${wholeMs('clock.time')} as now, job.tenant, job.id::text as id, job.name, job.job_group, job.attempts, job.last_error,
  case ${Object.entries(jobStates)
    .map(([state, condition]) => `when ${condition} then '${state}'`)
    .join(' ')} end as state,
  ${wholeMs('job.staged_at')} as staged_at, case when job.due_at > '-infinity' then ${wholeMs('job.due_at')} end as due_at,
  ${wholeMs('job.locked_until')} as lease_until, ${deadMs} as dead_at`

export function jobSummaryOf(row: Row): JobSummary {
  return {
    now: row.now,
    tenant: row.tenant,
    id: row.id,
    name: row.name,
    group: row.job_group,
    state: row.state,
    attempts: row.attempts,
    stagedAt: row.staged_at,
    dueAt: row.due_at,
    leaseUntil: row.lease_until,
    deadAt: row.dead_at,
    error: row.last_error,
  }
}
