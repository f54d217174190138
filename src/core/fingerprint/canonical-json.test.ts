import canonicalize from 'canonicalize'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { canonicalJson } from './canonical-json.js'

const long = process.env.ONCEKEY_LONG === '1'

/** What a function returns, or that it throws. */
function endOf(write: () => unknown): unknown {
  try {
    return write()
  } catch {
    return 'throws'
  }
}

describe('canonicalJson', () => {
  test('writes what RFC 8785 shows', () => {
    const parsed = JSON.parse(
      '{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/","literals":[null,true,false]}',
    )
    expect(canonicalJson(parsed)).toBe(
      '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
    )
  })

  test('sorts names by their UTF-16 code units, also those that look like numbers or like a prototype', () => {
    const parsed = JSON.parse('{"\\ud83d\\ude00":1,"\\ufb33":2,"10":3,"9":4,"é":5,"":6,"__proto__":{"toJSON":7}}')
    expect(canonicalJson(parsed)).toBe('{"":6,"10":3,"9":4,"__proto__":{"toJSON":7},"é":5,"😀":1,"\ufb33":2}')
  })

  test('writes any JSON as canonicalize does, and refuses what it refuses', () => {
    fc.assert(
      fc.property(
        fc.jsonValue({
          stringUnit: fc.oneof(
            fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
            fc.constantFrom('\ud800', '\udc00', '"', '\\', '\n', '\u2028'),
          ),
        }),
        (given) => {
          const parsed: unknown = JSON.parse(JSON.stringify(given))
          expect(endOf(() => canonicalJson(parsed))).toBe(endOf(() => canonicalize(parsed)))
        },
      ),
      { numRuns: long ? 500 : 150 },
    )
  })
})
