import fc from 'fast-check'
import { describe, expect, onTestFinished, test } from 'vitest'
import { retryAfterMs, retryDelayMs } from './retry-delay.js'

const now = Date.UTC(2026, 0, 1)
const asked = (value: string, date?: string) =>
  retryAfterMs(new Headers({ 'retry-after': value, ...(date === undefined ? {} : { date }) }), now)

describe('Retry-After', () => {
  test.each([
    ['0', 0],
    ['7', 7_000],
    [' 120 ', 120_000],
    ['Thu, 01 Jan 2026 00:00:30 GMT', 30_000],
    ['Thursday, 01-Jan-26 00:00:30 GMT', 30_000],
    ['Thu Jan  1 00:00:30 2026', 30_000],
    ['Wed, 31 Dec 2025 23:59:00 GMT', 0],
  ])('%j is %d ms', (value, ms) => {
    expect(asked(value)).toBe(ms)
  })

  test.each(['', '-1', '1.5', '1e3', '0x10', '2026-01-01T00:01:00Z', 'soon', 'Sunday', '1, 2', '5s'])('%j says nothing', (value) => {
    expect(asked(value)).toBeUndefined()
  })

  test('a date is compared with the clock of the server, if it says what it is', () => {
    expect(asked('Thu, 01 Jan 2026 09:00:30 GMT', 'Thu, 01 Jan 2026 09:00:00 GMT')).toBe(30_000)
    expect(asked('Thu, 01 Jan 2026 00:00:30 GMT', 'no date')).toBe(30_000)
  })

  test('whole seconds are taken as they are', () => {
    fc.assert(fc.property(fc.nat(), (seconds) => asked(String(seconds)) === seconds * 1_000))
  })

  test('the form that does not say so is GMT, too, wherever the client is', () => {
    const { TZ } = process.env
    process.env.TZ = 'Asia/Tokyo'
    onTestFinished(() => {
      if (TZ === undefined) delete process.env.TZ
      else process.env.TZ = TZ
    })
    expect(new Date(now).getHours()).toBe(9)
    expect(asked('Thu Jan  1 00:00:30 2026')).toBe(30_000)
  })

  test('every date is as far away as it is, in its three forms', () => {
    const days = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 10 * 365 * 86_400 }), (seconds) => {
        const at = new Date(now + seconds * 1_000)
        const [, day, month, year, time] = /, (\d\d) (\w+) (\d+) ([\d:]+)/.exec(at.toUTCString()) as unknown as string[]
        const name = days[at.getUTCDay()] as string
        const old = `${name}, ${day}-${month}-${year?.slice(2)} ${time} GMT`
        const oldest = `${name.slice(0, 3)} ${month} ${day?.replace(/^0/, ' ')} ${time} ${year}`
        expect([at.toUTCString(), old, oldest].map((text) => asked(text))).toEqual(Array(3).fill(seconds * 1_000))
      }),
    )
  })

  test('whatever it says, it is nothing or a time from now on', () => {
    const texts = fc.oneof(fc.string(), fc.stringMatching(/^[A-Za-z0-9 ,:.+-]*$/), fc.stringMatching(/^(Mon|Sunday),? [0-9A-Za-z :-]*$/))
    fc.assert(
      fc.property(texts, (text) => {
        if (/[^ -~]/.test(text)) return true
        const ms = asked(text)
        return ms === undefined || ms >= 0
      }),
    )
  })
})

describe('how long a client waits', () => {
  const limits = fc.record({ firstDelay: fc.integer({ min: 1, max: 60_000 }), maxDelay: fc.integer({ min: 1, max: 600_000 }) })
  const fractions = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })

  test('anything from nothing to a wait that doubles, and never more than the most', () => {
    fc.assert(
      fc.property(limits, fc.integer({ min: 1, max: 5_000 }), fractions, (limit, attempt, fraction) => {
        const most = Math.min(limit.maxDelay, limit.firstDelay * 2 ** (attempt - 1))
        expect(retryDelayMs(limit, attempt, undefined, 0)).toBe(0)
        expect(retryDelayMs(limit, attempt, undefined, fraction)).toBeCloseTo(most * fraction)
      }),
    )
  })

  test('never less than the server asks for, and at most a quarter more', () => {
    fc.assert(
      fc.property(limits, fc.integer({ min: 1, max: 1e9 }), fractions, (limit, askedMs, fraction) => {
        const waitMs = retryDelayMs(limit, 1, askedMs, fraction)
        expect(waitMs).toBeGreaterThanOrEqual(askedMs)
        expect(waitMs).toBeLessThanOrEqual(askedMs * 1.25)
      }),
    )
  })

  test('a server that asks for no time at all is not stormed', () => {
    expect(retryDelayMs({ firstDelay: 500, maxDelay: 10_000 }, 2, 0, 0.5)).toBe(500)
  })
})
