import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { jsonTexts } from '../../../test/support/json-texts.js'
import { type LosslessJson, readLosslessJson } from '../../../test/support/lossless-json.js'
import { isFaithfulJson } from './faithful-json.js'

describe('isFaithfulJson', () => {
  test.each([
    ['{}'],
    ['[]'],
    [' null '],
    ['"9007199254740993"'],
    ['{"9007199254740993": 1}'],
    ['9007199254740992'],
    ['-9007199254740991'],
    ['1e22'],
    ['1E+2'],
    ['0.1'],
    ['0.30000000000000004'],
    ['123456789012345.0'],
    ['1.7976931348623157e308'],
    ['5e-324'],
    ['-0'],
    ['0e999999999999'],
    ['0.000'],
    ['{"a":{"a":1},"b":[{"a":1},{"a":1}]}'],
    ['{"a":"a","b":"a"}'],
    ['["a","a"]'],
    ['{"a":1,"A":1,"a ":1}'],
    ['{"\\\\":1,"\\"":2,"}":3,":":4}'],
    ['{"a\\\\":1,"a":2}'],
  ])('trusts %s', (text) => {
    expect(isFaithfulJson(text)).toBe(true)
  })

  test.each([
    ['9007199254740993'],
    ['-9007199254740993'],
    ['9007199254740993.0'],
    ['12345678901234567890'],
    ['0.1000000000000000055511151231257827'],
    ['1e400'],
    ['-1e400'],
    ['1e-400'],
    ['1e999999999999999999999'],
    ['2.4e-324'],
    ['[1,[2,{"a":9007199254740993}]]'],
    ['{"a":1,"a":1}'],
    ['{"a":1,"b":2,"a":3}'],
    ['{"a":1, "\\u0061" : 2}'],
    ['{"":1,"":2}'],
    ['{"__proto__":1,"__proto__":2}'],
    ['{"constructor":1,"constructor":2}'],
    ['{"a":{"b":1,"b":2}}'],
    ['[{"a":{"x":[]},"a":1}]'],
    ['{"a"\n:1,"a"\t:2}'],
  ])('does not trust %s', (text) => {
    expect(isFaithfulJson(text)).toBe(false)
  })

  test('trusts the longest spelling of the largest and the smallest double, and none that is longer still', () => {
    expect(isFaithfulJson(`1${'0'.repeat(308)}`)).toBe(true)
    expect(isFaithfulJson(`0.${'0'.repeat(323)}5`)).toBe(true)
    expect(isFaithfulJson(`1.${'0'.repeat(398)}`)).toBe(true)
    expect(isFaithfulJson(`1.${'0'.repeat(399)}`)).toBe(false)
  })

  test('gives up on nesting deeper than its limit, and not before', () => {
    const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`
    expect(isFaithfulJson(nested(256))).toBe(true)
    expect(isFaithfulJson(nested(257))).toBe(false)
    expect(isFaithfulJson('[{"a":[]}]', [{ a: [] }], 3)).toBe(true)
    expect(isFaithfulJson('[{"a":[]}]', [{ a: [] }], 2)).toBe(false)
    expect(isFaithfulJson(`[${'[],'.repeat(1_000)}[]]`, undefined, 2)).toBe(true)
  })

  test('agrees with a parser that loses nothing', () => {
    fc.assert(
      fc.property(jsonTexts, (text) => {
        const { hasUniqueNames, hasExactNumbers } = readLosslessJson(text) as LosslessJson
        expect(isFaithfulJson(text)).toBe(hasUniqueNames && hasExactNumbers)
      }),
      { numRuns: 3_000 },
    )
  })
})
