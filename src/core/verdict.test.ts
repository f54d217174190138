import { describe, expect, test } from 'vitest'
import { reply } from './answer.js'
import { execute, report } from './verdict.js'

const answer = reply(201, { id: 'order-1' })
const incarnation = 'a life'
const known = { answer, incarnation, expiresAt: 5_000 }
const now = 2_000

describe('report', () => {
  test('replays the stored answer with its state, the life of the key, and how long it lasts', () => {
    expect(report({ state: 'complete', ...known }, { do: 'replay' }, now)).toEqual({
      kind: 'replay',
      state: 'complete',
      answer,
      incarnation,
      expiresInMs: 3_000,
    })
    expect(report({ state: 'failed', ...known }, { do: 'replay' }, now)).toEqual({
      kind: 'replay',
      state: 'failed',
      answer,
      incarnation,
      expiresInMs: 3_000,
    })
  })

  test('shows what a parked key says', () => {
    expect(report({ state: 'parked', ...known }, { do: 'report-parked' }, now)).toEqual({ kind: 'parked', answer })
  })

  test('names the part that differs, and nothing of the stored answer', () => {
    expect(report({ state: 'complete', ...known }, { do: 'report-mismatch', part: 'path' }, now)).toEqual({
      kind: 'mismatch',
      part: 'path',
    })
  })

  test('tells how long the lease still runs', () => {
    const verdict = report({ state: 'processing', ...known, answer: null }, { do: 'report-in-progress', retryAfterMs: 70 }, now)
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
