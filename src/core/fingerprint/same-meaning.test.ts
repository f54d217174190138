import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { changedSomewhere, isEqualJson, jsonValues, smallJsonValues, spelled } from '../../../test/support/json-values.js'
import { createFingerprinter } from './fingerprint.js'

const long = process.env.ONCEKEY_LONG === '1'

const takeFingerprint = createFingerprinter()
const json = (body: string | Uint8Array) => takeFingerprint({ mediaType: 'application/json', body })

const isSame = (a: string | Uint8Array, b: string | Uint8Array) => json(a).differenceFrom(json(b).bytes) === null

describe('the fingerprint of a JSON body', () => {
  test.each([
    ['member order', '{"a":1,"b":{"c":2,"d":3}}', '{"b":{"d":3,"c":2},"a":1}'],
    ['white space', '{"a":[1,2]}', ' {\n\t"a" : [ 1 , 2 ]\r\n} '],
    ['1.0 and 1', '[1.0]', '[1]'],
    ['1e2 and 100', '[1e2]', '[100]'],
    ['100E-2 and 1', '[100E-2]', '[1]'],
    ['-0 and 0', '[-0]', '[0]'],
    ['0.10 and 0.1', '[0.10]', '[0.1]'],
    ['\\u00e9 and é', '["\\u00e9"]', '["é"]'],
    ['\\u00E9 and \\u00e9', '["\\u00E9"]', '["\\u00e9"]'],
    ['\\/ and /', '["\\/"]', '["/"]'],
    ['an escaped name', '{"\\u0061":1}', '{"a":1}'],
    ['an escaped pair', '["\\ud83d\\ude00"]', '["😀"]'],
  ])('does not see %s', (_, a, b) => {
    expect(isSame(a, b)).toBe(true)
  })

  test.each([
    ['integers past 2^53', '[9007199254740993]', '[9007199254740992]'],
    ['integers past 2^53 that round alike', '[9007199254740993]', '[9007199254740992.0]'],
    ['long decimals', '[0.1]', '[0.10000000000000000555]'],
    ['numbers past the doubles', '[1e400]', '[1e401]'],
    ['numbers before the doubles', '[1e-400]', '[0]'],
    ['duplicate members and the last of them', '{"a":1,"a":2}', '{"a":2}'],
    ['duplicate members and the first of them', '{"a":1,"a":2}', '{"a":1}'],
    ['equal duplicate members and one of them', '{"a":1,"a":1}', '{"a":1}'],
    ['duplicate members in another order', '{"a":1,"a":2}', '{"a":2,"a":1}'],
    ['array order', '[1,2]', '[2,1]'],
    ['null and absent', '{"a":null}', '{}'],
    ['no body and {}', '', '{}'],
    ['no body and null', '', 'null'],
    ['a number and its text', '[1]', '["1"]'],
    ['composed and decomposed letters', '["é"]', '["e\u0301"]'],
    ['upper and lower case', '["A"]', '["a"]'],
    ['an array and an object', '["a"]', '{"0":"a"}'],
    ['lone surrogates', '["\\ud800"]', '["\\ud801"]'],
    ['a lone surrogate and its replacement', '["\\ud800"]', '["\ufffd"]'],
    ['broken JSON', '{"a":1', '{"a":1,'],
  ])('sees %s', (_, a, b) => {
    expect(isSame(a, b)).toBe(false)
    expect(isSame(b, a)).toBe(false)
  })

  test('sees any two different integers, however large', () => {
    fc.assert(
      fc.property(fc.bigInt(), fc.bigInt({ min: -3n, max: 3n }), (integer, step) => {
        expect(isSame(`{"id":${integer}}`, `{"id":${integer + step}}`)).toBe(step === 0n)
      }),
    )
  })

  test('does not see how a value is spelled', () => {
    fc.assert(
      fc.property(jsonValues, fc.infiniteStream(fc.nat(999)), (value, choices) => {
        const text = spelled(value, () => choices.next().value)
        expect(isEqualJson(JSON.parse(text), value)).toBe(true)
        expect(isSame(text, JSON.stringify(value))).toBe(true)
        expect(isSame(Buffer.from(text), text)).toBe(true)
      }),
      { numRuns: long ? 500 : 150 },
    )
  })

  test('is equal exactly if the values are', () => {
    const pairs = fc.oneof(fc.tuple(smallJsonValues, smallJsonValues), fc.tuple(jsonValues, jsonValues))
    fc.assert(
      fc.property(pairs, ([a, b]) => {
        expect(isSame(JSON.stringify(a), JSON.stringify(b))).toBe(isEqualJson(a, b))
      }),
      { numRuns: long ? 3_000 : 800 },
    )
  })

  test('sees one change anywhere inside', () => {
    fc.assert(
      fc.property(jsonValues, smallJsonValues, fc.infiniteStream(fc.nat(999)), (value, other, choices) => {
        const next = () => choices.next().value
        const changed = changedSomewhere(value, other, next)
        expect(isSame(spelled(changed, next), spelled(value, next))).toBe(isEqualJson(changed, value))
      }),
      { numRuns: long ? 1_000 : 250 },
    )
  })

  test('is that of the value itself', () => {
    fc.assert(
      fc.property(jsonValues, (value) => {
        const fromText = takeFingerprint({ mediaType: 'application/json', body: JSON.stringify(value) })
        expect(takeFingerprint({ mediaType: 'application/json', value }).differenceFrom(fromText.bytes)).toBe(null)
      }),
    )
  })
})

describe('the fingerprint of any other body', () => {
  test('sees every byte', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 4, max: 2 }), fc.uint8Array({ maxLength: 4, max: 2 }), (a, b) => {
        const difference = takeFingerprint({ body: a }).differenceFrom(takeFingerprint({ body: b }).bytes)
        expect(difference).toBe(isDeepStrictEqual([...a], [...b]) ? null : 'body')
      }),
    )
  })

  test('sees the spelling of JSON that is not called JSON', () => {
    expect(takeFingerprint({ body: '{"a": 1}' }).differenceFrom(takeFingerprint({ body: '{"a":1}' }).bytes)).toBe('body')
  })

  test('sees lone surrogates in a text', () => {
    expect(takeFingerprint({ body: '\ud800' }).differenceFrom(takeFingerprint({ body: '\ud801' }).bytes)).toBe('body')
  })
})
