import fc from 'fast-check'
import { describe, expect, expectTypeOf, test } from 'vitest'
import { isOncekeyError } from './errors.js'
import { expiryAtFinish, type Retention, resolveRetention, retention } from './retention.js'

const hour = 3_600_000
const day = 24 * hour

function codeOf(option: unknown, floor: unknown = '1h'): unknown {
  try {
    resolveRetention(option as Retention, floor as '1h')
    return null
  } catch (error) {
    return isOncekeyError(error) ? error.code : error
  }
}

describe('resolveRetention', () => {
  test('counts a plain duration from creation', () => {
    expect(resolveRetention('72h', '1h')).toEqual({ ms: 72 * hour, from: 'creation', floorMs: hour })
    expect(resolveRetention(5_000, 1_000)).toEqual({ ms: 5_000, from: 'creation', floorMs: 1_000 })
  })

  test('takes the moment it is counted from', () => {
    expect(resolveRetention({ for: '30d', from: 'completion' }, '1h')).toEqual({ ms: 30 * day, from: 'completion', floorMs: hour })
    expect(resolveRetention({ for: '30d', from: 'creation' }, '1h').from).toBe('creation')
  })

  test('keeps for ever', () => {
    expect(resolveRetention('forever', '1h')).toEqual({ ms: Number.POSITIVE_INFINITY, from: 'creation', floorMs: hour })
    expect(resolveRetention({ for: 'forever', from: 'completion' }, '1h').ms).toBe(Number.POSITIVE_INFINITY)
  })

  test('lowers the floor to the retention itself', () => {
    expect(resolveRetention('10m', '1h').floorMs).toBe(600_000)
  })

  test.each<[unknown, unknown, string]>([
    ['soon', '1h', 'duration_invalid'],
    [-1, '1h', 'duration_invalid'],
    ['101y', '1h', 'duration_invalid'],
    [null, '1h', 'duration_invalid'],
    [undefined, '1h', 'duration_invalid'],
    [{ for: '0s', from: 'creation' }, '1h', 'duration_invalid'],
    [{ from: 'creation' }, '1h', 'duration_invalid'],
    [{ for: '1h' }, '1h', 'option_invalid'],
    [{ for: '1h', from: 'start' }, '1h', 'option_invalid'],
    ['24h', '0s', 'duration_invalid'],
    ['24h', 'forever', 'duration_invalid'],
    ['forever', -1, 'duration_invalid'],
  ])('refuses %o with a floor of %o as %s', (option, floor, code) => {
    expect(codeOf(option, floor)).toBe(code)
  })

  test('names the option that is wrong', () => {
    expect(() => resolveRetention('soon' as Retention, '1h')).toThrow(/^retention is 'soon'/)
    expect(() => resolveRetention('24h', '0s')).toThrow(/^retentionFloor is '0s'/)
  })
})

describe('retention', () => {
  test('holds the published windows', () => {
    const inHours = Object.fromEntries(Object.entries(retention).map(([name, option]) => [name, resolveRetention(option, '1h').ms / hour]))
    expect(inHours).toEqual({ payment: 24, signup: 1, webhook: 168, asyncJob: 720, ledger: Number.POSITIVE_INFINITY })
    expect(retention.asyncJob.from).toBe('completion')
    expectTypeOf(retention.payment).toExtend<Retention>()
  })
})

describe('expiryAtFinish', () => {
  const created = Date.UTC(2026, 0, 1)

  test('counts from creation, however long the work took', () => {
    expect(expiryAtFinish(created, created + 5 * hour, resolveRetention('24h', '1h'))).toBe(created + day)
  })

  test('counts from completion where that was asked for', () => {
    expect(expiryAtFinish(created, created + 5 * hour, resolveRetention({ for: '24h', from: 'completion' }, '1h'))).toBe(
      created + 29 * hour,
    )
  })

  test('keeps an answer for the floor when the work took longer than its retention', () => {
    expect(expiryAtFinish(created, created + 30 * hour, resolveRetention('24h', '1h'))).toBe(created + 31 * hour)
  })

  test('never expires what is kept for ever', () => {
    expect(expiryAtFinish(created, created + day, resolveRetention('forever', '1h'))).toBe(Number.POSITIVE_INFINITY)
  })

  test('never finishes a key that is expired already, and never keeps it longer than was asked', () => {
    const times = fc.integer({ min: 1, max: 100 * day })
    fc.assert(
      fc.property(times, times, fc.constantFrom('creation' as const, 'completion' as const), times, (ms, floor, from, took) => {
        const now = created + took
        const resolved = resolveRetention({ for: ms, from }, floor)
        const expiry = expiryAtFinish(created, now, resolved)
        expect(expiry).toBeGreaterThan(now)
        expect(expiry).toBeLessThanOrEqual(now + ms)
        expect(expiry).toBeGreaterThanOrEqual((from === 'creation' ? created : now) + ms)
      }),
    )
  })
})
