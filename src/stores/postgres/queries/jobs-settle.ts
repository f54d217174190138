import type { JobSettlement, WriteResult } from '../../../core/store.js'
import { arrayLiteral } from '../batching/array-literal.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { after } from './key-row.js'

/**
 * Says what became of jobs, in one statement. The token is the fence: a relay whose lease ran out, and whose job was taken by another one,
 * changes nothing. Nothing is asked of the lease's time: one that is late but was not replaced may still settle.
 */
export function jobsSettle({ jobs, distributed }: Tables) {
  const wanted = `
    select * from unnest($1::text::text[], $2::text::uuid[], $3::text::uuid[], $4::text::text[], $5::text::float8[], $6::text::text[])
      as wanted (tenant, id, token, outcome, due_ms, error)`
  const isHeld = 'job.tenant = wanted.tenant and job.id = wanted.id and job.token = wanted.token'
  // By the place of the row: the planner can then only go by the primary key, also in a table of which it knows nothing.
  const places = `array(
        select job.place from wanted cross join lateral (
          select job.ctid as place from ${jobs} as job where ${isHeld} offset 0
        ) as job
        where wanted.outcome = 'delivered')`
  // A take that came between the look and the delete has another token.
  const gone = distributed
    ? `delete from ${jobs} as job using wanted where wanted.outcome = 'delivered' and ${isHeld}`
    : `delete from ${jobs} as job where job.ctid = any (${places}) and job.token = any (array(select distinct token from wanted))`
  const text = `
    with wanted as materialized (${wanted}
    ), gone as (
      ${gone}
      returning job.id
    ), kept as (
      update ${jobs} as job
      set token = null, locked_until = null,
          due_at = case wanted.outcome when 'retry' then ${after('clock_timestamp()', 'wanted.due_ms')} else job.due_at end,
          dead_at = case wanted.outcome when 'dead' then clock_timestamp() end,
          attempts = case wanted.outcome when 'release' then job.attempts - 1 else job.attempts end,
          last_error = coalesce(wanted.error, job.last_error)
      from wanted
      where wanted.outcome <> 'delivered' and ${isHeld}
      returning job.id
    )
    select id::text as id from gone union all select id::text as id from kept`

  return async (db: Queryable, settled: readonly JobSettlement[]): Promise<WriteResult[]> => {
    const rows = await db.query(
      text,
      [
        arrayLiteral(settled.map(({ tenant }) => tenant)),
        arrayLiteral(settled.map(({ id }) => id)),
        arrayLiteral(settled.map(({ token }) => token)),
        arrayLiteral(settled.map(({ as }) => as)),
        arrayLiteral(settled.map((job) => (job.as === 'retry' ? job.dueInMs : null))),
        arrayLiteral(settled.map((job) => ('error' in job ? job.error : null))),
      ],
      true,
    )
    const done = new Set(rows.map(({ id }) => id as string))
    return settled.map(({ id }) => (done.has(id) ? 'done' : 'lost'))
  }
}
