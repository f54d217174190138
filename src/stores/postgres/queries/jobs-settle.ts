import type { JobSettlement, SettleResult } from '../../../core/store.js'
import { arrayLiteral } from '../batching/array-literal.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { later, sentArray, unlocked } from './job-row.js'

/**
 * Says what became of jobs, in one statement. The token is the fence: a relay whose lease ran out, and whose job was taken by another one,
 * changes nothing. Nothing is asked of the lease's time: one that is late but was not replaced may still settle. It waits for no row that is
 * locked; what it did not write is looked at in a second statement, which is rarely needed.
 */
export function jobsSettle(tables: Tables) {
  const { jobs } = tables
  const types = { tenant: 'text', id: 'uuid', token: 'uuid', outcome: 'text', due_ms: 'float8', error: 'text' }
  const arrays = Object.values(types).map((type, index) => sentArray(`$${index + 1}`, type))
  const isHeld = (row: string) => `job.tenant = ${row}.tenant and job.id = ${row}.id and job.token = ${row}.token`
  // Arrays without nulls: `array_nulls` may be off.
  const text = `
    with wanted as (
      select * from unnest(${arrays.join(', ')}) with ordinality as wanted (${Object.keys(types).join(', ')}, position)
    ), held as materialized (${unlocked(tables, isHeld('wanted'))}
    ), gone as (
      delete from ${jobs} as job using held where held.outcome = 'delivered' and ${isHeld('held')}
      returning held.position
    ), kept as (
      update ${jobs} as job
      set token = null, locked_until = null,
          due_at = case held.outcome when 'retry' then ${later('clock.time', 'held.due_ms')} else job.due_at end,
          dead_at = case held.outcome when 'dead' then clock.time end,
          attempts = case held.outcome when 'release' then job.attempts - 1 else job.attempts end,
          last_error = case when held.outcome in ('retry', 'dead') then held.error else job.last_error end
      from held, (select statement_timestamp() as time) as clock
      where held.outcome <> 'delivered' and ${isHeld('held')}
      returning held.position
    )
    select position::integer from gone union all select position::integer from kept`
  const stillHeld = `
    select job.tenant, job.id::text as id
    from unnest(${arrays.slice(0, 3).join(', ')}) as wanted (tenant, id, token) join ${jobs} as job on ${isHeld('wanted')}`

  return async (db: Queryable, settled: readonly JobSettlement[]): Promise<SettleResult[]> => {
    const refs = (list: readonly JobSettlement[]) => [
      arrayLiteral(list.map(({ tenant }) => tenant)),
      arrayLiteral(list.map(({ id }) => id)),
      arrayLiteral(list.map(({ token }) => token)),
    ]
    const written = await db.query(
      text,
      [
        ...refs(settled),
        arrayLiteral(settled.map(({ as }) => as)),
        arrayLiteral(settled.map((job) => (job.as === 'retry' ? job.dueInMs : 0))),
        arrayLiteral(settled.map((job) => ('error' in job ? job.error : ''))),
      ],
      { often: true },
    )
    // From 1 on. A place takes less than a name, and a statement that writes returns at most 64 KiB.
    const done = new Set(written.map(({ position }) => settled[(position as number) - 1]))
    const others = settled.filter((job) => !done.has(job))
    const locked = new Set(others.length === 0 ? [] : (await db.query(stillHeld, refs(others))).map(nameOf))
    return settled.map((job) => (done.has(job) ? 'done' : locked.has(nameOf(job)) ? 'locked' : 'lost'))
  }
}

const nameOf = ({ tenant, id }: { readonly tenant?: string; readonly id?: string }) => `${tenant} ${id}`
