import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { CanonicalScan } from './canonical-scan.js'
import { createFingerprinter } from './fingerprint.js'
import { workPerTurn } from './scan-in-turns.js'

const long = process.env.ONCEKEY_LONG === '1'

const million = 1_000_000

/** None of these may throw, or take longer than its length warrants: each would run for minutes if something were quadratic. */
const hostile: [string, () => string][] = [
  ['a number of zeros behind the point', () => `0.${'0'.repeat(million)}`],
  ['a number of zeros behind a one', () => `1${'0'.repeat(million)}`],
  ['a number of nines', () => '9'.repeat(million)],
  ['zeros and ones in turn', () => `0.${'01'.repeat(million / 2)}`],
  ['an exponent of zeros', () => `1e${'0'.repeat(million)}1`],
  ['many numbers of the greatest length', () => `[${`${`1${'0'.repeat(398)}`},`.repeat(2_500)}1]`],
  ['many long numbers with zeros and ones', () => `[${`${`0.${'01'.repeat(150)}`},`.repeat(2_500)}1]`],
  ['nesting of arrays', () => '['.repeat(100_000) + ']'.repeat(100_000)],
  ['nesting of objects', () => `${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`],
  ['brackets that are never closed', () => '['.repeat(million)],
  ['a text of backslashes', () => `"${'\\'.repeat(million)}"`],
  ['a text of backslashes that is never closed', () => `"${'\\'.repeat(million + 1)}"`],
  ['quotation marks', () => '"'.repeat(million)],
  ['escaped quotation marks', () => `"${'\\"'.repeat(million / 2)}"`],
  ['texts with white space behind them', () => `[${`"a"${' '.repeat(1_000)},`.repeat(1_000)}"a"]`],
  ['a text with white space behind it', () => `"a"${' '.repeat(million)}`],
  ['white space', () => ' '.repeat(million)],
  ['minus signs', () => '-'.repeat(million)],
  ['empty texts', () => `[${'"",'.repeat(million / 4)}""]`],
  ['many members', () => `{${Array.from({ length: 50_000 }, (_, index) => `"${index}":${index}`)}}`],
  ['a member many times', () => `{${'"a":1,'.repeat(100_000)}"a":1}`],
  ['escapes of one character', () => `"${'\\u0061'.repeat(million / 6)}"`],
]

const scrambled = (index: number) => (Math.imul(index + 1, 2_654_435_761) >>> 0).toString(36)
const members = (count: number, prefix = '') => `{${Array.from({ length: count }, (_, index) => `"${prefix}${scrambled(index)}":1`)}}`

const slow: [string, () => string][] = [
  ['one text', () => `"${'x'.repeat(3 * million)}"`],
  ['escapes', () => `"${'\\u0061'.repeat(million / 2)}"`],
  ['members out of order', () => members(100_000)],
  ['names that are alike for long', () => members(1_000, 'x'.repeat(2_000))],
  ['members out of order, far inside of others', () => `${'{"b":1,"a":'.repeat(250)}${members(50_000)}${'}'.repeat(250)}`],
  ['small objects out of order', () => `[${Array(150_000).fill('{"b":1,"a":2}')}]`],
  ['numbers with exponents', () => `[${Array(100_000).fill('1e300')}]`],
  ['numbers that grow', () => `[${Array(100_000).fill('1e20')}]`],
]

describe('a fingerprint of hostile input', () => {
  const takeFingerprint = createFingerprinter({ exclude: { body: ['/a/a/a', '/0/0'], query: ['a'] } })

  test.each(hostile)('is taken of %s', async (_, make) => {
    const text = make()
    const fingerprint = takeFingerprint({ mediaType: 'application/json', body: text })
    expect(fingerprint.differenceFrom(takeFingerprint({ mediaType: 'application/json', body: Buffer.from(text) }).bytes)).toBe(null)
    expect(fingerprint.differenceFrom(takeFingerprint({ mediaType: 'application/json', body: '0' }).bytes)).toBe('body')
    const inTurns = await takeFingerprint.inTurns({ mediaType: 'application/json', body: text })
    expect(inTurns.bytes).toEqual(fingerprint.bytes)
  })

  test.each(slow)('is left to later turns of the event loop for %s', (_, make) => {
    const scan = new CanonicalScan()
    scan.begin(Buffer.from(make()), Buffer.alloc(0), [])
    let slices = 1
    while (!scan.advance(workPerTurn)) slices += 1
    expect(slices).toBeGreaterThan(4)
  })

  test('is taken of a very long query, path and media type', () => {
    const fingerprint = takeFingerprint({
      path: '/'.repeat(million),
      query: '&'.repeat(100_000),
      mediaType: `${' '.repeat(million)}text/plain${' '.repeat(million)};${';'.repeat(million)}`,
    })
    expect(fingerprint.bytes).toHaveLength(41)
  })

  test('is taken of any request, the same each time', () => {
    const text = fc.string({ unit: 'binary' })
    const requests = fc.record(
      {
        method: text,
        path: text,
        query: text,
        mediaType: fc.oneof(text, fc.constant('application/json')),
        body: fc.oneof(text, fc.uint8Array()),
      },
      { requiredKeys: [] },
    )
    fc.assert(
      fc.property(requests, (request) => {
        expect(takeFingerprint(request).differenceFrom(takeFingerprint({ ...request }).bytes)).toBe(null)
      }),
      { numRuns: long ? 200 : 60 },
    )
  })
})
