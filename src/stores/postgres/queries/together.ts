import type { JobRecord, StepRecord } from '../../../core/store.js'
import type { Tables } from '../tables.js'

/** What goes into the trail: a word, and an expression over the written row for the detail. */
export interface Noted {
  readonly what: string
  readonly detail: string
}

/**
 * One statement that writes the key's row and, only if it did, everything that belongs to the same commit: step results, staged
 * jobs and the trail. `write` must return tenant, id, incarnation and fence, and what the detail needs. The steps and jobs are the
 * two parameters after the `parameters` of the write.
 */
export function together(tables: Tables, write: string, parameters: number, noted: Noted): string {
  return `
    with done as (${write}
    ), recorded as (
      insert into ${tables.steps} (tenant, key_id, incarnation, name, position, kind, result, fence, recorded_at)
      select done.tenant, done.id, done.incarnation, step.name, step.position, step.kind, step.result, done.fence, clock_timestamp()
      from done, json_to_recordset($${parameters + 1}::text::json) as step (name text, position integer, kind text, result text)
      on conflict (tenant, key_id, incarnation, name) do update
      set kind = excluded.kind, result = excluded.result, fence = excluded.fence, recorded_at = excluded.recorded_at
    ), staged as (
      insert into ${tables.jobs} (tenant, id, key_id, incarnation, name, payload, staged_at)
      select done.tenant, job.id, done.id, done.incarnation, job.name, job.payload, clock_timestamp()
      from done, json_to_recordset($${parameters + 2}::text::json) as job (id uuid, name text, payload text)
    )${audited(tables, 'done', noted)}
    select * from done`
}

/** The two parameters that `together()` adds. */
export function togetherValues(steps: readonly StepRecord[], jobs: readonly JobRecord[]): [string, string] {
  return [JSON.stringify(steps), JSON.stringify(jobs)]
}

/** The CTE that notes each row of `source` in the trail, or nothing when no trail is kept. */
export function audited({ audit }: Tables, source: string, { what, detail }: Noted): string {
  if (!audit) return ''
  return `, audited as (
      insert into ${audit} (tenant, key_id, incarnation, fence, at, what, detail)
      select tenant, id, incarnation, fence, clock_timestamp(), ${what}, ${detail} from ${source}
    )`
}

/** A write that stands alone, noted if a trail is kept. It must return tenant, id, incarnation and fence. */
export function noted(tables: Tables, write: string, note: Noted, columns = '*'): string {
  if (!tables.audit && columns === '*') return write
  return `with done as (${write}
    )${audited(tables, 'done', note)}
    select ${columns} from done`
}
