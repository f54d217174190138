import type { JobRecord, StepRecord } from '../../../core/store.js'
import type { Tables } from '../tables.js'
import { after } from './key-row.js'

/** What goes into the trail: a word, and an expression over the written row for the detail. */
export interface Noted {
  readonly what: string
  readonly detail: string
}

export interface TogetherParts {
  /** CTEs that it reads from. */
  readonly before?: string
  /** Must return tenant, id, incarnation and fence of each row that it wrote, and what the detail needs. */
  readonly write: string
  /** How many parameters it has. */
  readonly parameters: number
  readonly noted: Noted
  /** What the statement returns. Default: all of `done`. */
  readonly returned?: string
}

/** What one key brings along. */
export interface Along {
  readonly id: string
  readonly steps: readonly StepRecord[]
  readonly jobs: readonly JobRecord[]
}

/**
 * One statement that writes rows of keys and, only of those that it wrote, everything that belongs to the same commit: step results, staged
 * jobs and the trail. Returns the statement for what comes along, and the values behind those of the write. Most bring no jobs, and then
 * Postgres need not open their table.
 */
export function together(tables: Tables, parts: TogetherParts): (all: readonly Along[]) => { text: string; values: string[] } {
  const withSteps = textOf(tables, parts, false)
  const withJobs = textOf(tables, parts, true)
  return (all) => {
    const ofKeys = (kind: 'steps' | 'jobs') =>
      JSON.stringify(all.flatMap(({ id, [kind]: each }) => each.map((one) => ({ key: id, ...one }))))
    if (all.every(({ jobs }) => jobs.length === 0)) return { text: withSteps, values: [ofKeys('steps')] }
    return { text: withJobs, values: [ofKeys('steps'), ofKeys('jobs')] }
  }
}

function textOf(
  tables: Tables,
  { before, write, parameters, noted, returned = 'select * from done' }: TogetherParts,
  jobs: boolean,
): string {
  return `
    with ${before ? `${before}, ` : ''}done as (${write}
    ), recorded as (
      insert into ${tables.steps} (tenant, key_id, incarnation, name, position, kind, result, fence, recorded_at)
      select done.tenant, done.id, done.incarnation, step.name, step.position, step.kind, step.result, done.fence, clock_timestamp()
      from json_to_recordset($${parameters + 1}::text::json) as step (key uuid, name text, position integer, kind text, result text)
      join done on done.id = step.key
      on conflict (tenant, key_id, incarnation, name) do update
      set kind = excluded.kind, result = excluded.result, fence = excluded.fence, recorded_at = excluded.recorded_at
    )${jobs ? staged(tables, `$${parameters + 2}`) : ''}${audited(tables, 'done', noted)}
    ${returned}`
}

function staged(tables: Tables, jobs: string): string {
  return `, staged as (
      insert into ${tables.jobs} (tenant, id, key_id, incarnation, name, payload, job_group, position, staged_at, due_at)
      select done.tenant, job.id, done.id, done.incarnation, job.name, job.payload, job.job_group, job.position,
             clock.time, ${after('clock.time', 'coalesce(job.delay_ms, 0)')}
      from (select clock_timestamp() as time) as clock,
           rows from (
             json_to_recordset(${jobs}::text::json) as (key uuid, id uuid, name text, payload text, "group" text, "delayMs" float8)
           ) with ordinality as job (key, id, name, payload, job_group, delay_ms, position)
           join done on done.id = job.key
    )`
}

/** The CTE that notes each row of `source` in the trail, or nothing when no trail is kept. */
export function audited({ audit }: Tables, source: string, { what, detail }: Noted): string {
  if (!audit) return ''
  return `, audited as (
      insert into ${audit} (tenant, key_id, incarnation, fence, at, what, detail)
      select tenant, id, incarnation, fence, clock_timestamp(), ${what}, ${detail} from ${source}
    )`
}

/** The ids of all rows of a CTE, as one text. */
export function idsOf(source: string): string {
  return `(select coalesce(string_agg(id::text, ' '), '') from ${source})`
}
