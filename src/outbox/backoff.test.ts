import { describe, expect, test } from 'vitest'
import { backoff } from './backoff.js'

const fixed = (fraction: number) => ({ uuid: () => '', fraction: () => fraction })
const longest = fixed(1)

describe('how long a job waits', () => {
  test('doubles with each attempt up to the most', () => {
    const waitMs = backoff({ first: '1s', most: '10s' }, longest)
    expect([1, 2, 3, 4, 5, 6, 60, 2_000].map((attempt) => waitMs(attempt))).toEqual([
      1_000, 2_000, 4_000, 8_000, 10_000, 10_000, 10_000, 10_000,
    ])
  })

  test('is anything from nothing on, so that those that failed together do not come back together', () => {
    const shares = [0, 0.25, 0.5, 0.75].map((fraction) => backoff({ first: '1s' }, fixed(fraction))(3))
    expect(shares).toEqual([0, 1_000, 2_000, 3_000])
  })

  test('is never less than what the receiver asks for, a little more at random, and at most about a day', () => {
    const never = backoff({ first: '1s' }, fixed(0))
    expect([never(1, 5_000), never(1, 0), never(1, -1), never(1, Number.NaN)]).toEqual([5_000, 0, 0, 0])
    expect(backoff({ first: '1s' }, longest)(1, 60_000)).toBe(75_000)
    expect(backoff({ first: '1s' }, fixed(0))(1, 1e15)).toBe(86_400_000)
    expect(backoff({ first: '1h' }, longest)(1, 1_000)).toBe(3_600_000)
  })

  test('takes about a day in all with the defaults, on average', () => {
    const waitMs = backoff({}, fixed(0.5))
    const hours = Array.from({ length: 59 }, (_, index) => waitMs(index + 1)).reduce((sum, ms) => sum + ms) / 3_600_000
    expect(Math.round(hours)).toBe(24)
  })

  test('is checked', () => {
    expect(() => backoff({ first: 0 }, longest)).toThrow('backoff.first')
    expect(() => backoff({ most: -1 }, longest)).toThrow('backoff.most')
  })
})
