import type { JobRef } from '../../../core/store.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { clock, type JobSummary, jobColumns, jobSummaryOf } from './job-summary.js'

/** Everything that is known of a job, as of one moment. */
export interface JobStory {
  readonly job: JobSummary
  /** As it is stored: JSON, or sealed. */
  readonly payload: string
  /** The key whose work staged it. Null if that life of the key is over and forgotten. */
  readonly key: { readonly scope: string; readonly key: string } | null
  /** The others of its group. All 0 for a job without one. */
  readonly others: {
    /** Not given up, and delivered before it. */
    readonly before: number
    /** Not given up, and delivered after it. */
    readonly behind: number
    readonly dead: number
  }
}

export function jobStory({ jobs, keys }: Tables) {
  const others = (condition: string) => `
      (select count(*)::float8 from ${jobs} as other
       where other.tenant = job.tenant and other.job_group = job.job_group and other.id <> job.id and ${condition})`
  const place = (row: string) => `(${row}.staged_at, ${row}.position, ${row}.id)`
  const text = `
    with ${clock}
    select ${jobColumns}, job.payload, key.scope, key.key,
      ${others(`other.dead_at is null and ${place('other')} < ${place('job')}`)} as before,
      ${others(`other.dead_at is null and ${place('other')} > ${place('job')}`)} as behind,
      ${others('other.dead_at is not null')} as dead
    from ${jobs} as job cross join clock
    left join ${keys} as key on key.tenant = job.tenant and key.id = job.key_id and key.incarnation = job.incarnation
    where job.tenant = $1 and job.id = $2::uuid`

  return async (db: Queryable, { tenant, id }: JobRef): Promise<JobStory | undefined> => {
    const [row] = await db.query(text, [tenant, id])
    if (!row) return undefined
    return {
      job: jobSummaryOf(row),
      payload: row.payload,
      key: row.key === null ? null : { scope: row.scope, key: row.key },
      others: { before: row.before, behind: row.behind, dead: row.dead },
    }
  }
}
