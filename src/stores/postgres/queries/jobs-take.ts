import type { JobsTaken } from '../../../core/store.js'
import type { Queryable } from '../connections/connection.js'
import { tableBytes } from '../plans.js'
import type { Tables } from '../tables.js'
import { jobBytes, payloadBytes, takenBytesAtOnce, takenColumns, takenJob, takenNow } from './job-row.js'
import { isOver } from './key-row.js'
import { momentOf, momentText } from './moment.js'

/** How many groups one take looks at: with more of them, the next one goes on where it ended. */
const groupsAtOnce = 1_000

/**
 * How far behind a head one that is held is looked for. A held job was the head when it was taken, so before it are only those that came since:
 * late commits, and dead letters that a person retries. To look at the whole of a long group would make each of its deliveries cost that much.
 */
const behindHead = 50

/**
 * Takes jobs in one statement: those without a group in the order in which they are due, and of each group its head, the oldest that is not
 * given up, unless another job of the group is held. Groups are found by going from one to the next in their index, so that what waits behind a head costs nothing. Rows that
 * another take has locked are passed over; the lock looks at each row anew, so that what another take has just taken is not taken again.
 *
 * Rows are addressed by tenant and id: a `ctid` is unique within one partition only. The planner assumes ten elements in the two arrays,
 * however many there are, and so goes by the primary key, also in a table of which it knows nothing.
 */
export function jobsTake({ jobs }: Tables) {
  const isFree = (job: string) =>
    `${job}.due_at <= (select time from clock) and (${job}.locked_until is null or ${isOver(`${job}.locked_until`, '(select time from clock)', '$2')})
        and ($4::text is null or ${job}.name = any ($4::text::text[]))`
  const headAfter = (group: string) => `
      select job.tenant, job.job_group, job.id, job.name, job.due_at, job.locked_until from ${jobs} as job
      where job.job_group is not null and job.dead_at is null and (job.tenant, job.job_group) > ${group}
      order by job.tenant, job.job_group, job.staged_at, job.position, job.id limit 1`
  const chosen = (column: string) => `array(select ${column} from grouped union all select ${column} from free)`
  const text = `
    with recursive clock as materialized (select clock_timestamp() as time), head as (
      (${headAfter(`(coalesce($7::text::json ->> 0, ''), coalesce($7::text::json ->> 1, ''))`)})
      union all
      select next.* from head cross join lateral (${headAfter('(head.tenant, head.job_group)')}) as next
    ), page as materialized (
      select * from head limit ${groupsAtOnce}
    ), grouped as materialized (
      select job.* from page cross join lateral (
        select job.tenant, job.id, job.job_group from ${jobs} as job
        where job.tenant = page.tenant and job.id = page.id and job.dead_at is null and ${isFree('job')}
        offset 0
        for no key update of job skip locked
      ) as job
      where ${isFree('page')} and not ($5::boolean and exists (
        select from ${jobs} as dead where dead.tenant = page.tenant and dead.job_group = page.job_group and dead.dead_at is not null))
        and not exists (
          select from (
            select live.locked_until from ${jobs} as live
            where live.tenant = page.tenant and live.job_group = page.job_group and live.job_group is not null and live.dead_at is null
            order by live.tenant, live.job_group, live.staged_at, live.position, live.id limit ${behindHead}
          ) as first where not ${isOver('first.locked_until', '(select time from clock)', '$2')})
      limit greatest(1, $3::integer / 2)
    ), free as materialized (
      select job.tenant, job.id, job.due_at from ${jobs} as job
      where job.job_group is null and job.dead_at is null and job.due_at >= coalesce(${momentOf('$6')}, '-infinity') and ${isFree('job')}
      order by job.due_at limit $3::integer - (select count(*) from grouped)
      for no key update of job skip locked
    ), taken as (
      update ${jobs} as job set ${takenNow('$1', 'clock.time', '$2')}
      from clock, unnest(${chosen('tenant')}, ${chosen('id')}) as chosen (tenant, id)
      where job.tenant = chosen.tenant and job.id = chosen.id
      returning job.*
    ), sized as (
      select job.*, sum(${payloadBytes}) over (order by ${payloadBytes}, job.tenant, job.id) + sum(${jobBytes}) over () as smallest_bytes
      from taken as job
    ), told as (
      select ${takenColumns('clock.time')}, case when job.smallest_bytes <= ${takenBytesAtOnce} then job.payload end as payload
      from sized as job cross join clock
    )
    select told.*,
      (select ${momentText('looked.up_to')} from (
        select case when count(*) + (select count(*) from grouped) < $3::integer
          then (select time from clock) - interval '1 second' else max(due_at) end as up_to from free
      ) as looked) as looked_up_to,
      case
        when (select count(*) from grouped) >= greatest(1, $3::integer / 2)
          then (select json_build_array(tenant, job_group)::text from grouped order by tenant desc, job_group desc limit 1)
        when (select count(*) from page) = ${groupsAtOnce}
          then (select json_build_array(tenant, job_group)::text from page order by tenant desc, job_group desc limit 1)
      end as next_group,
      ${tableBytes(jobs)}
    from (select) as always left join told on true
    order by told.staged_at, told.position`

  return async (db: Queryable, values: TakeValues): Promise<JobsTaken> => {
    const rows = await db.query(text, values, { often: true })
    const { looked_up_to = null, next_group = null } = rows[0] ?? {}
    return { jobs: rows.filter(({ id }) => id !== null).map(takenJob), lookedUpTo: looked_up_to, nextGroup: next_group }
  }
}

export type TakeValues = readonly [
  token: string,
  leaseMs: number,
  limit: number,
  names: string | null,
  heldByDead: boolean,
  from: string | null,
  group: string | null,
]
