import type { JobRef } from '../../../core/store.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { keyList, keyListValue } from './key-list.js'

/** A person's word on jobs that were given up. One that is not given up (any more) is left alone. */
export function jobsResolve({ jobs }: Tables) {
  const wanted = 'job.tenant = wanted.tenant and job.id = wanted.id and job.dead_at is not null'
  const texts = {
    retry: `
      update ${jobs} as job set dead_at = null, attempts = 0, due_at = clock_timestamp()
      from ${keyList('$1')} where ${wanted} returning job.id`,
    discard: `delete from ${jobs} as job using ${keyList('$1')} where ${wanted} returning job.id`,
  }

  return async (db: Queryable, refs: readonly JobRef[], as: 'retry' | 'discard'): Promise<number> =>
    (await db.query(texts[as], [keyListValue(refs)])).length
}
