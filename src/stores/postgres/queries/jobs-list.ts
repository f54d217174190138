import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { clock, type JobState, type JobSummary, jobColumns, jobStates, jobSummaryOf } from './job-summary.js'

export interface JobsFilter {
  readonly tenant?: string | undefined
  readonly id?: string | undefined
  readonly name?: string | undefined
  readonly group?: string | undefined
  readonly state?: JobState | undefined
  /** Only jobs that were staged at least that long ago. */
  readonly olderThanMs?: number | undefined
  readonly limit: number
}

export interface JobsList {
  /** At most `limit` of them, those that were staged first. */
  readonly jobs: readonly JobSummary[]
  /** How many there are in all. */
  readonly count: number
}

/** Jobs as an operator asks for them. It reads the whole table, unless tenant and id are given or only dead jobs are wanted. */
export function jobsList({ jobs }: Tables) {
  return async (db: Queryable, filter: JobsFilter): Promise<JobsList> => {
    const values: (string | number)[] = [filter.limit]
    const parameter = (value: string | number) => `$${values.push(value)}`
    const conditions = filter.state ? [jobStates[filter.state]] : []
    if (filter.tenant !== undefined) conditions.push(`job.tenant = ${parameter(filter.tenant)}`)
    if (filter.id !== undefined) conditions.push(`job.id = ${parameter(filter.id)}::uuid`)
    if (filter.name !== undefined) conditions.push(`job.name = ${parameter(filter.name)}`)
    if (filter.group !== undefined) conditions.push(`job.job_group = ${parameter(filter.group)}`)
    if (filter.olderThanMs !== undefined) {
      conditions.push(`job.staged_at <= clock.time - ${parameter(filter.olderThanMs)}::float8 * interval '1 millisecond'`)
    }
    const rows = await db.query(
      `with ${clock}
       select ${jobColumns}, (count(*) over ())::float8 as count
       from ${jobs} as job cross join clock ${conditions.length > 0 ? `where ${conditions.join(' and ')}` : ''}
       order by job.staged_at, job.position, job.id limit $1::integer`,
      values,
    )
    return { jobs: rows.map(jobSummaryOf), count: rows[0]?.count ?? 0 }
  }
}
