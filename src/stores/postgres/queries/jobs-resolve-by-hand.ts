import { storableText } from '../../../core/storable-text.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { deadMs, unlocked } from './job-row.js'
import type { SeenJob } from './job-summary.js'
import { audited } from './together.js'

export interface JobsResolveByHand {
  /** `retry`: deliver them again, from the first attempt on, at their old places in their groups. `discard`: delete them. */
  readonly as: 'retry' | 'discard'
  /** For the trail. */
  readonly note: string
}

/**
 * A person's word on jobs that were given up, as they were seen: one that was retried since, and was given up again, is another matter. It is
 * always noted, in the trail of the key that staged the job. If that key is forgotten, the note stands alone. Jobs that another session has locked
 * are left alone.
 */
export function jobsResolveByHand(tables: Tables) {
  const { jobs, keys } = tables
  const isWanted = (row: string) => `job.tenant = ${row}.tenant and job.id = ${row}.id and ${deadMs} = round(${row}."deadAt")`
  const textOf = (what: string, write: string) => `
    with wanted as (select * from json_to_recordset($1::text::json) as wanted (tenant text, id uuid, "deadAt" float8)
    ), found as materialized (${unlocked(tables, isWanted('wanted'))}
    ), resolved as (
      ${write} where ${isWanted('found')}
      returning job.tenant, job.id, job.name, job.key_id, job.incarnation
    ), noted as (
      select resolved.tenant, resolved.key_id as id, resolved.incarnation, coalesce(key.fence, 0) as fence,
        resolved.name || ' ' || resolved.id || ', ' || $2::text as note
      from resolved
      left join ${keys} as key
        on key.tenant = resolved.tenant and key.id = resolved.key_id and key.incarnation = resolved.incarnation
    )${audited({ ...tables, audit: tables.auditTable }, 'noted', { what: `'${what}'`, detail: 'note' })}
    select count(*)::float8 as count from resolved`
  const texts = {
    retry: textOf(
      'job retried',
      `update ${jobs} as job set dead_at = null, attempts = 0, due_at = clock.time
      from found, (select statement_timestamp() as time) as clock`,
    ),
    discard: textOf('job discarded', `delete from ${jobs} as job using found`),
  }

  return async (db: Queryable, seen: readonly SeenJob[], { as, note }: JobsResolveByHand): Promise<number> => {
    const list = seen.map(({ tenant, id, deadAt }) => ({ tenant, id, deadAt }))
    const [row] = await db.query(texts[as], [JSON.stringify(list), storableText(note)])
    return row?.count ?? 0
  }
}
