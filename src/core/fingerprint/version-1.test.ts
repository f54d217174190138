import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { createFingerprinter, type FingerprintRequest } from './fingerprint.js'
import { fingerprintV1 } from './version-1.js'

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')

const request: FingerprintRequest = {
  method: 'POST',
  path: '/orders',
  query: '?dry_run=1',
  mediaType: 'application/json; charset=utf-8',
  body: '{"amount": 100, "currency": "eur"}',
}
const secrets = [{ id: 'key-2026', secret: 'sixteen bytes and some more' }]

// Stored fingerprints are compared for as long as the longest retention. If one of these goes red, version 1 was changed:
// put it back, and make a version 2 instead.
describe('version 1', () => {
  test.each<[string, FingerprintRequest, string]>([
    ['a JSON request', request, '0100000000c1545051b03ad0481b213a02411cd4c21b549f63205c8551c3cca85b8e0840bbd94fb6a7'],
    [
      'a request without a body',
      { method: 'DELETE', path: '/orders/1' },
      '0100000000cc04d7872247e67c2d8834e18d457a14b39ed4cf68f38d1f9e009c3cf25ab3110a6e312c',
    ],
    [
      'bytes',
      { method: 'PUT', path: '/file', mediaType: 'image/png', body: Uint8Array.of(137, 80, 78, 71) },
      '0100000000c20116f6d2cb7846df4c9f591061aa219415089f51c2e10a9e009c3c19a5ab470493ccbf',
    ],
    [
      'a value',
      { value: { orderId: 'order-1', lines: [1, 2.5, null] } },
      '0100000000c4918dc32ea85ef89c981edb6553d6aba0be2a1657af39409e009c3cf25ab311f476c8c7',
    ],
    ['nothing', {}, '010000000092155069e56750227400ecf869473663a0be2a1657af39409e009c3cf25ab3110a6e312c'],
  ])('keeps the fingerprint of %s', (_, given, expected) => {
    expect(hex(createFingerprinter()(given).bytes)).toBe(expected)
  })

  test('keeps the fingerprint under a secret', () => {
    expect(hex(createFingerprinter({ secrets })(request).bytes)).toBe(
      '01d0b66b539922782ccbd489af28bd2070d5a6250234e454dadd43351e3714b8809e0fe8cb9d8a7abb',
    )
  })

  test('is what its description says', () => {
    const sha256 = (...pieces: (string | Buffer)[]) =>
      createHash('sha256')
        .update(Buffer.concat(pieces.map((piece) => Buffer.from(piece))))
        .digest()
    const parts = [
      sha256('method:POST'),
      sha256('path:/orders'),
      sha256('query:dry_run=1'),
      sha256('mediaType:application/json'),
      sha256('body:json:{"amount":100,"currency":"eur"}'),
    ]
    const whole = sha256('v1:', ...parts).subarray(0, 16)
    const expected = Buffer.concat([Buffer.of(1, 0, 0, 0, 0), whole, ...parts.map((part) => part.subarray(0, 4))])
    expect(hex(createFingerprinter()(request).bytes)).toBe(hex(expected))
  })

  test('lets the whole decide and the parts only name', () => {
    const own = fingerprintV1.compute(request, { secret: null, exclusions: { body: [], query: [] }, known: new Map() })
    const changed = (...at: number[]) => own.map((byte, index) => (at.includes(index) ? byte ^ 1 : byte))
    expect(fingerprintV1.difference(own, changed(16))).toBe(null)
    expect(fingerprintV1.difference(own, changed(15))).toBe('body')
    expect(fingerprintV1.difference(own, changed(0, 16))).toBe('method')
    expect(fingerprintV1.difference(own, changed(0, 23))).toBe('path')
    expect(fingerprintV1.difference(own, changed(0, 24, 28))).toBe('query')
    expect(fingerprintV1.difference(own, changed(0, 31, 32))).toBe('mediaType')
    expect(fingerprintV1.difference(own, changed(0, 35))).toBe('body')
  })

  test('stands for a secret with four bytes of its own', () => {
    expect(hex(fingerprintV1.secretId('key-2026'))).toBe('d0b66b53')
    expect(fingerprintV1.secretId('')).toHaveLength(4)
  })
})

test('a request that comes again has the fingerprint that it had, however many came between', () => {
  const takeFingerprint = createFingerprinter()
  const asks = ['POST', 'PATCH'].flatMap((method) =>
    ['', 'a=1', 'a=2', 'b', 'c', 'd', 'e'].map(
      (query): FingerprintRequest => ({ method, path: '/orders', query, mediaType: 'text/plain' }),
    ),
  )
  const alone = asks.map((ask) => hex(createFingerprinter()(ask).bytes))
  for (let round = 0; round < 3; round += 1) expect(asks.map((ask) => hex(takeFingerprint(ask).bytes))).toEqual(alone)
  expect(new Set(alone).size).toBe(asks.length)
})
