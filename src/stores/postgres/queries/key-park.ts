import type { KeyPark } from '../../../core/store.js'
import type { Tables } from '../tables.js'
import { type FencedWriter, fencedWrite } from './fenced-write.js'
import { answerValues } from './key-row.js'

/** Stops the key for a person. A parked key never runs, expires or is reaped. */
export function keyPark(tables: Tables): FencedWriter<KeyPark> {
  return fencedWrite(tables, {
    parameters: { why: 'text', step: 'text', status: 'smallint', headers: 'text', body: 'bytea', omitted: 'integer' },
    assignments: ({ why, step, status, headers, body, omitted }) =>
      `reason = ${why}, parked_step = ${step}, answer_status = ${status}, answer_headers = ${headers}, answer_body = ${body},
       answer_omitted_bytes = ${omitted}`,
    writeOf: ({ lease, answer, reason, step, steps }) => ({
      lease,
      state: 'parked',
      values: [reason, step ?? null, ...answerValues(answer)],
      steps,
    }),
  })
}
