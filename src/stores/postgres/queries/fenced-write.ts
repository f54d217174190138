import type { KeyState, Lease } from '../../../core/record.js'
import type { AdvanceResult, JobRecord, StepRecord } from '../../../core/store.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { noted, together, togetherValues } from './together.js'

type Value = string | number | boolean | Uint8Array | null

export interface FencedWrite {
  readonly lease: Lease
  readonly state: KeyState
  /** For the parameters from $7 on. */
  readonly values: readonly Value[]
  readonly steps?: readonly StepRecord[] | undefined
  readonly jobs?: readonly JobRecord[] | undefined
}

/**
 * A holder's last write: it ends the lease, and it changes nothing unless incarnation and fence are the newest. Nothing is
 * asked of the lease's time: a holder that is late but was not replaced may still finish.
 *
 * `assignments` may use $1 to $6 for the lease and the new state, and its own `parameters` from $7 on.
 */
export function fencedWrite(tables: Tables, assignments: string, parameters: number, what: string) {
  const lease = 'tenant = $1 and id = $2::uuid and incarnation = $3::uuid and fence = $4 and owner = $5::uuid'
  const write = (more = '') => `
      update ${tables.keys} set state = $6, locked_until = null, ${assignments}${more}
      where ${lease} and state = 'processing'
      returning tenant, id, incarnation, fence, reason`
  const note = { what, detail: 'reason' }
  const alone = noted(tables, write(), note)
  // The last step that comes along is the last one committed: the next holder sees by the recovery point that there are steps to read.
  const lastStep = `($${6 + parameters + 1}::text::json -> -1) ->> 'name'`
  const withSteps = together(tables, write(`, recovery_point = coalesce(${lastStep}, recovery_point)`), 6 + parameters, note)
  const repeated = `select from ${tables.keys} where ${lease} and state = $6`

  return async (db: Queryable, { lease, state, values, steps = [], jobs = [] }: FencedWrite): Promise<AdvanceResult> => {
    const held = [lease.tenant, lease.id, lease.incarnation, lease.fence, lease.owner, state]
    const plain = steps.length === 0 && jobs.length === 0
    const done = plain
      ? await db.query(alone, [...held, ...values])
      : await db.query(withSteps, [...held, ...values, ...togetherValues(steps, jobs)])
    if (done.length > 0) return 'done'
    // The same write again, because its acknowledgement was lost? Then the row is as it was left.
    const before = await db.query(repeated, held)
    return before.length > 0 ? 'repeated' : 'lost'
  }
}
