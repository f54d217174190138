import type { JobsTaken } from '../../../core/store.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { takenColumns, takenJob, takenNow } from './job-row.js'
import type { TakeValues } from './jobs-take.js'
import { keyList, keyListValue } from './key-list.js'

/**
 * The same as `jobsTake` for tables that are distributed by tenant: it looks first, and takes by a plain conditional update, in which the
 * second of two relays finds the job taken. A head that is a head stays one until it is settled, so the look may be old.
 */
export function jobsTakeDistributed({ jobs }: Tables) {
  const isFree = (job: string, names: string) =>
    `${job}.due_at <= clock_timestamp() and (${job}.locked_until is null or ${job}.locked_until <= clock_timestamp())
      and (${names}::text is null or ${job}.name = any (${names}::text::text[]))`
  const heads = `
    select head.tenant, head.id::text as id from (
      select distinct on (job.tenant, job.job_group) job.* from ${jobs} as job
      where job.job_group is not null and job.dead_at is null
      order by job.tenant, job.job_group, job.staged_at, job.position, job.id
    ) as head
    where ${isFree('head', '$2')} and not ($3::boolean and exists (
      select from ${jobs} as dead where dead.tenant = head.tenant and dead.job_group = head.job_group and dead.dead_at is not null))
      and not exists (
        select from ${jobs} as held
        where held.tenant = head.tenant and held.job_group = head.job_group and held.dead_at is null and held.locked_until > clock_timestamp())
    order by random() limit greatest(1, $1::integer / 2)`
  const free = `
    select job.tenant, job.id::text as id from ${jobs} as job
    where job.job_group is null and job.dead_at is null and ${isFree('job', '$2')}
    order by job.due_at limit $1::integer`
  const take = `
    update ${jobs} as job set ${takenNow('$1', '$2')}
    from ${keyList('$3')}
    where job.tenant = wanted.tenant and job.id = wanted.id
      and job.dead_at is null and job.due_at <= clock_timestamp() and (job.locked_until is null or job.locked_until <= clock_timestamp())
    returning ${takenColumns('job')}`

  return async (db: Queryable, [token, leaseMs, limit, names, heldByDead]: TakeValues): Promise<JobsTaken> => {
    const grouped = await db.query(heads, [limit, names, heldByDead])
    const others = await db.query(free, [limit - grouped.length, names])
    const wanted = [...grouped, ...others]
    const rows = wanted.length === 0 ? [] : await db.query(take, [token, leaseMs, keyListValue(wanted)])
    const jobs = [...rows].sort((one, other) => one.staged_at - other.staged_at || one.position - other.position).map(takenJob)
    return { jobs, lookedUpTo: null, nextGroup: null }
  }
}
