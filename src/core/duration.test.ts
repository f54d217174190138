import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Duration, durationMs } from './duration.js'
import { isOncekeyError } from './errors.js'

const units = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 }
type Unit = keyof typeof units
const unitNames = Object.keys(units) as Unit[]

const century = 36_525 * units.d

/** The error's code, or the value when nothing was thrown. */
function attempt(duration: unknown): unknown {
  try {
    return durationMs(duration as Duration, 'lease')
  } catch (error) {
    return isOncekeyError(error) ? error.code : error
  }
}

describe('durationMs', () => {
  test.each([
    ['250ms', 250],
    ['90s', 90_000],
    ['1.5s', 1_500],
    ['15m', 900_000],
    ['72h', 259_200_000],
    ['7d', 604_800_000],
    ['2w', 1_209_600_000],
    [1, 1],
    [0.5, 1],
    ['0.5ms', 1],
    [1_500.4, 1_500],
    [century, century],
    ['36525d', century],
  ] as const)('reads %s as %d ms', (duration, ms) => {
    expect(durationMs(duration, 'lease')).toBe(ms)
  })

  test('reads every whole number of every unit exactly', () => {
    fc.assert(
      fc.property(fc.constantFrom(...unitNames), fc.double({ min: 0, max: 1, noNaN: true }), (unit, fraction) => {
        const count = 1 + Math.floor(fraction * (century / units[unit] - 1))
        expect(durationMs(`${count}${unit}`, 'lease')).toBe(count * units[unit])
        expect(durationMs(count * units[unit], 'lease')).toBe(count * units[unit])
      }),
    )
  })

  test.each<[unknown]>([
    [0],
    [-1],
    [0.4],
    ['0s'],
    ['0.4ms'],
    ['-1s'],
    [Number.NaN],
    [Number.POSITIVE_INFINITY],
    [century + 1],
    ['36526d'],
    ['101w '],
    [' 1s'],
    ['1 s'],
    ['1S'],
    ['1'],
    ['s'],
    [''],
    ['1e3ms'],
    ['.5s'],
    ['1.s'],
    ['1,5s'],
    ['+1s'],
    ['1s\n'],
    ['1y'],
    ['forever'],
    [null],
    [undefined],
    [true],
    [10n],
    [Symbol('1s')],
    [['1s']],
    [{ ms: 1 }],
    [`${'9'.repeat(400)}h`],
  ])('refuses %o', (duration) => {
    expect(attempt(duration)).toBe('duration_invalid')
  })

  test('refuses every other text', () => {
    const valid = /^\d+(\.\d+)?(ms|[smhdw])$/
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom(...'0123456789.-+esmhdw \n') }).filter((text) => !valid.test(text)),
        (text) => {
          expect(attempt(text)).toBe('duration_invalid')
        },
      ),
    )
  })

  test('refuses whatever is neither a number nor a text', () => {
    const values = fc
      .anything({ withBigInt: true, withDate: true })
      .filter((value) => typeof value !== 'number' && typeof value !== 'string')
    fc.assert(
      fc.property(values.filter(isPrintable), (value) => {
        expect(attempt(value)).toBe('duration_invalid')
      }),
    )
  })

  test('refuses an object that cannot be shown as a text', () => {
    expect(attempt(Object.create(null))).toBe('duration_invalid')
  })

  test('names the option and the value in its sentence', () => {
    expect(() => durationMs('soon' as Duration, 'maxRun')).toThrow(/^maxRun is 'soon': /)
    expect(() => durationMs(-5, 'lease')).toThrow(/^lease is -5: /)
  })
})

/** Objects without a working toString have a test of their own. */
function isPrintable(value: unknown): boolean {
  try {
    return typeof String(value) === 'string'
  } catch {
    return false
  }
}
