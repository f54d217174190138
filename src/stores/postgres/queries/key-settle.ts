import type { KeyRecord } from '../../../core/record.js'
import type { ResolvedRetention } from '../../../core/retention.js'
import { holderGone, outcomeUnknown } from '../../../core/system-answers.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { expiryAtFinish } from './key-finish.js'
import { answerValues, retentionValue } from './key-row.js'
import { noted } from './together.js'

/**
 * Ends a key whose holder is gone and whose work must not run again: its outcome is unknown, and says so. The fence rises,
 * so that the holder cannot come back. False if the row is not what it was any more; the caller looks again.
 */
export function keySettle(tables: Tables) {
  const write = `
    update ${tables.keys}
    set state = $5, fence = fence + 1, locked_until = null, reason = $6,
        answer_status = $7, answer_headers = $8, answer_body = $9::bytea, answer_omitted_bytes = $10,
        expires_at = ${expiryAtFinish('$11', '$12', '$13')}
    where tenant = $1 and id = $2::uuid and incarnation = $3::uuid and fence = $4
      and state = 'processing' and locked_until <= clock_timestamp()
    returning *`
  const text = noted(tables, write, { what: 'state', detail: 'reason' }, 'state')

  return async (db: Queryable, seen: KeyRecord, state: 'failed' | 'parked', retention: ResolvedRetention): Promise<boolean> => {
    const rows = await db.query(text, [
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
    ])
    return rows.length > 0
  }
}
