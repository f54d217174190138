import type { JobsTaken } from '../../../core/store.js'
import type { Queryable, Row } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { deliverableSince, payloadBytes, takenBytesAtOnce, takenJob, takenNow } from './job-row.js'
import { jobsRead } from './jobs-read.js'
import type { TakeValues } from './jobs-take.js'
import { keyList, keyListValue } from './key-list.js'
import { epochMs, isOver } from './key-row.js'

/**
 * The same as `jobsTake` for tables that are distributed by tenant: it looks first, and takes by a plain conditional update, in which the
 * second of two relays finds the job taken. A head that is a head stays one until it is settled, so the look may be old. The update returns plain
 * columns; what else is told of a job was seen in the look, and small payloads are read at the end.
 */
export function jobsTakeDistributed(tables: Tables) {
  const { jobs } = tables
  const read = jobsRead(tables)
  const isFree = (job: string, names: string, leaseMs: string) =>
    `${job}.due_at <= clock_timestamp() and (${job}.locked_until is null or ${isOver(`${job}.locked_until`, 'clock_timestamp()', leaseMs)})
      and (${names}::text is null or ${job}.name = any (${names}::text::text[]))`
  const looked = `job.tenant, job.id::text as id, job.name, job.job_group, job.position, ${epochMs('job.staged_at')} as staged_at,
      ${payloadBytes}::float8 as payload_bytes, ${epochMs(`clock_timestamp() - (${deliverableSince})`)} as lag_ms`
  const heads = `
    select ${looked} from (
      select distinct on (job.tenant, job.job_group) job.* from ${jobs} as job
      where job.job_group is not null and job.dead_at is null
      order by job.tenant, job.job_group, job.staged_at, job.position, job.id
    ) as job
    where ${isFree('job', '$2', '$4')} and not ($3::boolean and exists (
      select from ${jobs} as dead where dead.tenant = job.tenant and dead.job_group = job.job_group and dead.dead_at is not null))
      and not exists (
        select from ${jobs} as held
        where held.tenant = job.tenant and held.job_group = job.job_group and held.dead_at is null
          and not ${isOver('held.locked_until', 'clock_timestamp()', '$4')})
    order by random() limit greatest(1, $1::integer / 2)`
  const free = `
    select ${looked} from ${jobs} as job
    where job.job_group is null and job.dead_at is null and ${isFree('job', '$2', '$3')}
    order by job.due_at limit $1::integer`
  const take = `
    update ${jobs} as job set ${takenNow('$1', 'clock.time', '$2')}
    from ${keyList('$3')}, (select statement_timestamp() as time) as clock
    where job.tenant = wanted.tenant and job.id = wanted.id
      and job.dead_at is null and job.due_at <= clock.time and (job.locked_until is null or ${isOver('job.locked_until', 'clock.time', '$2')})
    returning job.tenant, job.id, job.attempts`

  return async (db: Queryable, [token, leaseMs, limit, names, heldByDead]: TakeValues): Promise<JobsTaken> => {
    const grouped = await db.query(heads, [limit, names, heldByDead, leaseMs])
    const others = await db.query(free, [limit - grouped.length, names, leaseMs])
    const seen = new Map([...grouped, ...others].map((row) => [`${row.tenant} ${row.id}`, row]))
    const rows = seen.size === 0 ? [] : await db.query(take, [token, leaseMs, keyListValue([...seen.values()])])
    const taken = rows.map((row): Row => ({ ...seen.get(`${row.tenant} ${row.id}`), ...row }))
    const small = smallest(taken)
    const payloads =
      small.length === 0
        ? []
        : await read(
            db,
            small.map(({ tenant, id }) => ({ tenant, id, token })),
          )
    small.forEach((row, index) => {
      row.payload = payloads[index]?.payload ?? null
    })
    const jobs = taken
      .sort((one, other) => one.staged_at - other.staged_at || one.position - other.position)
      .map((row) => takenJob({ payload: null, ...row }))
    return { jobs, lookedUpTo: null, nextGroup: null }
  }
}

/** Those whose payloads go along with a take. */
function smallest(rows: readonly Row[]): Row[] {
  let bytes = 0
  return rows
    .toSorted((one, other) => one.payload_bytes - other.payload_bytes)
    .filter(({ payload_bytes }) => {
      bytes += payload_bytes
      return bytes <= takenBytesAtOnce
    })
}
