import { expect, test } from 'vitest'
import { inAscii } from '../core/json-text.js'
import { bytes, cut, iso, jsonDocument, lasting, legibleJson, many, moment, printable, quoted } from './words.js'

test('puts lengths of time into two units', () => {
  const cases: [number, string][] = [
    [0, '0 ms'],
    [0.4, '0 ms'],
    [999, '999 ms'],
    [999.6, '1.0 s'],
    [2_500, '2.5 s'],
    [59_949, '59.9 s'],
    [59_960, '1m'],
    [192_000, '3m 12s'],
    [3_600_000, '1h'],
    [7_500_000, '2h 5m'],
    [86_399_900, '1d'],
    [356_400_000, '4d 3h'],
    [-192_000, '3m 12s'],
  ]
  expect(cases.map(([ms]) => lasting(ms))).toEqual(cases.map(([, text]) => text))
})

test('puts moments in UTC, and never as null', () => {
  expect(moment(Date.UTC(2026, 6, 31, 10, 0, 0, 999))).toBe('2026-07-31 10:00:00Z')
  expect([iso(0), iso(null), iso(Number.POSITIVE_INFINITY)]).toEqual(['1970-01-01T00:00:00.000Z', null, null])
})

test('puts sizes and counts', () => {
  expect([0, 999, 1_000, 16_384, 999_999, 123_456_789, 5e12].map(bytes)).toEqual([
    '0 B',
    '999 B',
    '1.0 kB',
    '16.4 kB',
    '1000 kB',
    '123 MB',
    '5.0 TB',
  ])
  expect([many(1, 'key'), many(0, 'key'), many(12_345, 'key')]).toEqual(['1 key', '0 keys', '12,345 keys'])
})

test('lets no control character through, and no text be turned around', () => {
  expect(printable('a\x1b[2J\n\x9b\u202eb é 日本')).toBe('a\\u001b[2J\\u000a\\u009b\\u202eb é 日本')
  const document = jsonDocument({ text: '\x1b\x7f\x9b\u202e' })
  expect(document).toBe('{\n  "text": "\\u001b\\u007f\\u009b\\u202e"\n}\n')
  expect(JSON.parse(document)).toEqual({ text: '\x1b\x7f\x9b\u202e' })
})

test('cuts, and says so', () => {
  expect([cut('abc', 3), cut('abcd', 3), cut('abc', 0)]).toEqual(['abc', 'ab…', '…'])
})

test('quotes for a shell', () => {
  expect(['acme', 'orders.create', 'POST /v1/orders', "it's", '', '-x', '$(rm)'].map(quoted)).toEqual([
    'acme',
    'orders.create',
    "'POST /v1/orders'",
    "'it'\\''s'",
    "''",
    "'-x'",
    "'$(rm)'",
  ])
})

test('shows JSON with its characters, and stays the same JSON', () => {
  for (const text of ['日本 € 🐶 é', '\\u00e9', '\\\\u00e9', 'a "quote"', '\n\t\x1b\0', '\ud800 alone', '\udc36\ud83d turned']) {
    const stored = inAscii(JSON.stringify({ text }))
    expect(stored).toMatch(/^[\x20-\x7e]*$/)
    expect(JSON.parse(stored)).toEqual({ text })
    expect(JSON.parse(legibleJson(stored))).toEqual({ text })
  }
  expect(legibleJson(inAscii('"日本 € 🐶 é"'))).toBe('"日本 € 🐶 é"')
})
