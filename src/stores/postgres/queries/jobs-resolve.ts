import type { JobRef } from '../../../core/store.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { unlocked } from './job-row.js'
import { keyList, keyListValue } from './key-list.js'

/** A person's word on jobs that were given up. One that is not given up (any more) is left alone, and so is one that another session has locked. */
export function jobsResolve(tables: Tables) {
  const { jobs } = tables
  const isWanted = (row: string) => `job.tenant = ${row}.tenant and job.id = ${row}.id and job.dead_at is not null`
  const textOf = (write: string) => `
    with wanted as (select * from ${keyList('$1')}
    ), found as materialized (${unlocked(tables, isWanted('wanted'))}
    )
    ${write} where ${isWanted('found')} returning job.id`
  const texts = {
    retry: textOf(`
      update ${jobs} as job set dead_at = null, attempts = 0, due_at = clock.time
      from found, (select statement_timestamp() as time) as clock`),
    discard: textOf(`delete from ${jobs} as job using found`),
  }

  return async (db: Queryable, refs: readonly JobRef[], as: 'retry' | 'discard'): Promise<number> =>
    (await db.query(texts[as], [keyListValue(refs)])).length
}
