import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createFingerprinter } from './fingerprint.js'

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

describe('a fingerprint of hostile input', () => {
  const takeFingerprint = createFingerprinter({ exclude: { body: ['/a/a/a', '/0/0'], query: ['a'] } })

  test.each(hostile)('is taken of %s', (_, make) => {
    const text = make()
    const fingerprint = takeFingerprint({ mediaType: 'application/json', body: text })
    expect(fingerprint.differenceFrom(takeFingerprint({ mediaType: 'application/json', body: Buffer.from(text) }).bytes)).toBe(null)
    expect(fingerprint.differenceFrom(takeFingerprint({ mediaType: 'application/json', body: '0' }).bytes)).toBe('body')
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
