import type { AdvanceResult, KeyPark } from '../../../core/store.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { fencedWrite } from './fenced-write.js'
import { answerValues } from './key-row.js'

/** Stops the key for a person. A parked key never runs, expires or is reaped. */
export function keyPark(tables: Tables) {
  const write = fencedWrite(
    tables,
    'reason = $7, parked_step = $8, answer_status = $9, answer_headers = $10, answer_body = $11::bytea, answer_omitted_bytes = $12',
    6,
    `'parked'`,
  )

  return (db: Queryable, { lease, answer, reason, step, steps }: KeyPark): Promise<AdvanceResult> =>
    write(db, { lease, state: 'parked', values: [reason, step ?? null, ...answerValues(answer)], steps })
}
