import type { KeyPark } from '../../../core/store.js'
import type { Tables } from '../tables.js'
import { type FencedWriter, fencedWrite } from './fenced-write.js'
import { answersOf } from './key-row.js'

/** Stops the key for a person. A parked key never runs, expires or is reaped. */
export function keyPark(tables: Tables): FencedWriter<KeyPark> {
  return fencedWrite(tables, {
    stateOf: () => 'parked',
    columns: {
      why: { type: 'text', of: ({ reason }) => reason },
      step: { type: 'text', of: ({ step }) => step ?? null },
      ...answersOf<KeyPark>(),
    },
    assignments: ({ why, step, status, headers, body, omitted }) =>
      `reason = ${why}, parked_step = ${step}, answer_status = ${status}, answer_headers = ${headers}, answer_body = ${body},
       answer_omitted_bytes = ${omitted}`,
  })
}
