import type { KeyRecord } from '../../../core/record.js'
import type { ResolvedRetention } from '../../../core/retention.js'
import { holderGone, outcomeUnknown } from '../../../core/system-answers.js'
import type { Queryable, Row } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { freeKey, thisKey, wasLocked } from './free-key.js'
import { expiryAtFinish } from './key-finish.js'
import { answerValues, retentionValue } from './key-row.js'
import { audited } from './together.js'

/**
 * Ends a key whose holder is gone and whose work must not run again: its outcome is unknown, and says so. The fence rises,
 * so that the holder cannot come back. `changed`: the row is not what it was any more, and the caller looks again.
 */
export function keySettle(tables: Tables) {
  const asSeen = `key.incarnation = $3::uuid and key.fence = $4 and key.state = 'processing' and key.locked_until <= statement_timestamp()`
  const text = `
    with ${freeKey(tables, asSeen)}, done as (
      update ${tables.keys} as key
      set state = $5, fence = key.fence + 1, locked_until = null, reason = $6,
          answer_status = $7, answer_headers = $8, answer_body = $9::bytea, answer_omitted_bytes = $10,
          expires_at = ${expiryAtFinish('$11', '$12', '$13')}
      from free where ${thisKey}
      returning key.tenant, key.id, key.incarnation, key.fence, key.state, key.reason
    )${audited(tables, 'done', { what: 'state', detail: 'reason' })}
    select done.id is not null as done, done.id is null and ${wasLocked(tables, asSeen)} as locked
    from (select) as always left join done on true`

  return async (
    db: Queryable,
    seen: KeyRecord,
    state: 'failed' | 'parked',
    retention: ResolvedRetention,
  ): Promise<'done' | 'locked' | 'changed'> => {
    const [row] = (await db.query(text, [
      seen.tenant,
      seen.id,
      seen.incarnation,
      seen.fence,
      state,
      holderGone,
      ...answerValues(outcomeUnknown),
      retention.from,
      retentionValue(retention.ms),
      retentionValue(retention.floorMs),
    ])) as [Row]
    return row.done ? 'done' : row.locked ? 'locked' : 'changed'
  }
}
