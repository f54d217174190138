import type { KeyPark, WriteResult } from '../../../core/store.js'
import type { Queryable } from '../connections/connection.js'
import { fencedWrite } from './fenced-write.js'
import { answerValues } from './key-row.js'

/** Stops the key for a person. A parked key never runs, expires or is reaped. */
export function keyPark(keys: string) {
  const write = fencedWrite(
    keys,
    'reason = $7, answer_status = $8, answer_headers = $9, answer_body = $10::bytea, answer_omitted_bytes = $11',
  )

  return (db: Queryable, { lease, answer, reason }: KeyPark): Promise<WriteResult> =>
    write(db, lease, 'parked', [reason, ...answerValues(answer)])
}
