import { storeTimeout } from '../../../core/errors.js'
import type { AdvanceResult, StepAdvance } from '../../../core/store.js'
import type { Bounded } from '../bounded.js'
import type { Tables } from '../tables.js'
import { freeKey, onceUnlocked, thisKey } from './free-key.js'
import { isMarked, readStanding, standingOf } from './standing.js'
import { together } from './together.js'

/**
 * Moves the recovery point on and records what led there, in one statement: the last one of a phase's transaction, or one by
 * itself. It also asks for the recovery point before, so that a repeat after a lost acknowledgement cannot apply twice.
 */
export function stepAdvance(tables: Tables) {
  const lease = 'key.incarnation = $3::uuid and key.fence = $4 and key.owner = $5::uuid'
  const asBefore = `${lease} and key.state = 'processing' and key.recovery_point is not distinct from $6`
  const write = `
      update ${tables.keys} as key set recovery_point = $7 from free where ${thisKey}
      returning key.tenant, key.id, key.incarnation, key.fence, key.recovery_point`
  const advancing = together(tables, {
    before: freeKey(tables, `${asBefore} and ${isMarked('$8')}`),
    write,
    parameters: 8,
    noted: { what: `'advanced'`, detail: 'recovery_point' },
    returned: 'select from done',
  })
  const standing = standingOf(
    tables,
    `${lease} and (key.recovery_point is not distinct from $7 or key.recovery_point = $8)`,
    '$6',
    `key.state = 'processing' and key.recovery_point = $8`,
  )

  return async (db: Bounded, { lease, from, to, steps, jobs }: StepAdvance): Promise<AdvanceResult> => {
    const { mark = '' } = db
    const held = [lease.tenant, lease.id, lease.incarnation, lease.fence, lease.owner]
    const { text, values } = advancing([{ id: lease.id, steps, jobs }])
    const result = await onceUnlocked(db, async () => {
      if ((await db.query(text, [...held, from, to, mark, ...values], { often: true })).length > 0) return 'done'
      return readStanding(await db.query(standing, [...held, mark, from, to]))
    })
    if (result === 'locked') throw storeTimeout()
    return result
  }
}
