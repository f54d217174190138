import { describe, expect, test } from 'vitest'
import { reply } from './answer.js'
import { execute, report } from './verdict.js'

const answer = reply(201, { id: 'order-1' })
const incarnation = 'a life'

describe('report', () => {
  test('replays the stored answer with its state and the life of the key', () => {
    expect(report({ state: 'complete', answer, incarnation }, { do: 'replay' })).toEqual({
      kind: 'replay',
      state: 'complete',
      answer,
      incarnation,
    })
    expect(report({ state: 'failed', answer, incarnation }, { do: 'replay' })).toEqual({
      kind: 'replay',
      state: 'failed',
      answer,
      incarnation,
    })
  })

  test('shows what a parked key says', () => {
    expect(report({ state: 'parked', answer, incarnation }, { do: 'report-parked' })).toEqual({ kind: 'parked', answer })
  })

  test('names the part that differs, and nothing of the stored answer', () => {
    expect(report({ state: 'complete', answer, incarnation }, { do: 'report-mismatch', part: 'path' })).toEqual({
      kind: 'mismatch',
      part: 'path',
    })
  })

  test('tells how long the lease still runs', () => {
    const verdict = report({ state: 'processing', answer: null, incarnation }, { do: 'report-in-progress', retryAfterMs: 70 })
    expect(verdict).toEqual({ kind: 'in-progress', retryAfterMs: 70 })
  })
})

describe('execute', () => {
  const lease = { tenant: 'tenant', id: 'id', incarnation: 'incarnation', fence: 1, owner: 'owner' }

  test('hands out the lease, the recovery point and the first request, and no more of the record', () => {
    const verdict = execute({ ...lease, recoveryPoint: 'charged', attempts: 2, request: Uint8Array.of(1), ...{ reason: 'a test' } })
    expect(verdict).toEqual({ kind: 'execute', lease, recoveryPoint: 'charged', takenOver: false, attempts: 2, request: Uint8Array.of(1) })
  })

  test('says whether somebody had the key before', () => {
    expect(execute({ ...lease, fence: 2, recoveryPoint: null, attempts: 0, request: null })).toMatchObject({ takenOver: true })
  })
})
