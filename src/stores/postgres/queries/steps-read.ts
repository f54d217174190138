import type { Lease } from '../../../core/record.js'
import type { StepHistory, StepKind } from '../../../core/store.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'

/** What earlier attempts left, read after the take-over, in a snapshot of its own. */
export function stepsRead({ keys, steps }: Tables) {
  const age = (moment: string) => `(extract(epoch from clock_timestamp() - ${moment}) * 1000)::float8`
  const text = `
    select step.name, step.position, step.kind, step.result, ${age('step.recorded_at')} as age, ${age('key.created_at')} as key_age
    from ${keys} as key
    left join ${steps} as step on step.tenant = key.tenant and step.key_id = key.id and step.incarnation = key.incarnation
    where key.tenant = $1 and key.id = $2::uuid and key.incarnation = $3::uuid
    order by step.position`

  return async (db: Queryable, { tenant, id, incarnation }: Lease): Promise<StepHistory> => {
    const rows = await db.query(text, [tenant, id, incarnation])
    const recorded = rows.filter(({ name }) => name !== null)
    return {
      steps: recorded.map(({ name, position, kind, result, age }) => ({ name, position, kind: kind as StepKind, result, ageMs: age })),
      lastCommitAgeMs: Math.min(...rows.map(({ age, key_age }) => age ?? key_age)),
    }
  }
}
