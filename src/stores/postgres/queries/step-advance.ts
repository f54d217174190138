import type { AdvanceResult, StepAdvance } from '../../../core/store.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { together } from './together.js'

/**
 * Moves the recovery point on and records what led there, in one statement: the last one of a phase's transaction, or one by
 * itself. It also asks for the recovery point before, so that a repeat after a lost acknowledgement cannot apply twice.
 */
export function stepAdvance(tables: Tables) {
  const lease = 'tenant = $1 and id = $2::uuid and incarnation = $3::uuid and fence = $4 and owner = $5::uuid'
  const write = `
      update ${tables.keys} set recovery_point = $7
      where ${lease} and state = 'processing' and recovery_point is not distinct from $6
      returning tenant, id, incarnation, fence, recovery_point`
  const advancing = together(tables, { write, parameters: 7, noted: { what: `'advanced'`, detail: 'recovery_point' } })
  const repeated = `select from ${tables.keys} where ${lease} and state = 'processing' and recovery_point = $6`

  return async (db: Queryable, { lease, from, to, steps, jobs }: StepAdvance): Promise<AdvanceResult> => {
    const held = [lease.tenant, lease.id, lease.incarnation, lease.fence, lease.owner]
    const { text, values } = advancing([{ id: lease.id, steps, jobs }])
    const done = await db.query(text, [...held, from, to, ...values], true)
    if (done.length > 0) return 'done'
    const before = await db.query(repeated, [...held, to])
    return before.length > 0 ? 'repeated' : 'lost'
  }
}
