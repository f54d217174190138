import { describe, expect, test } from 'vitest'
import { codeOf } from '../../../test/support/code-of.js'
import {
  createFingerprinter,
  type Fingerprint,
  type FingerprintOptions,
  type FingerprintRequest,
  type FingerprintSecret,
} from './fingerprint.js'
import { type FingerprintPart, type FingerprintVersion, fingerprintV1 } from './version-1.js'

const request: FingerprintRequest = {
  method: 'POST',
  path: '/orders',
  query: 'dry_run=1',
  mediaType: 'application/json',
  body: '{"amount":100,"sent_at":1}',
}

/** What the second request's fingerprint says of the first one's. */
function difference(first: FingerprintRequest, second: FingerprintRequest, options?: FingerprintOptions) {
  const takeFingerprint = createFingerprinter(options)
  return takeFingerprint(second).differenceFrom(takeFingerprint(first).bytes)
}

describe('a fingerprint', () => {
  test.each<[FingerprintPart, FingerprintRequest]>([
    ['method', { method: 'PUT' }],
    ['path', { path: '/orders/' }],
    ['path', { path: '/Orders' }],
    ['query', { query: 'dry_run=2' }],
    ['query', { query: '' }],
    ['query', { query: 'dry_run=1&dry_run=1' }],
    ['mediaType', { mediaType: 'application/vnd.api+json' }],
    ['body', { body: '{"amount":101,"sent_at":1}' }],
    ['body', { body: '' }],
  ])('names the %s when it differs by %o', (part, change) => {
    expect(difference(request, { ...request, ...change })).toBe(part)
    expect(difference({ ...request, ...change }, request)).toBe(part)
  })

  test('is that of its own request, also if its value takes another one while it is read', () => {
    const takeFingerprint = createFingerprinter()
    const nested = {
      toJSON() {
        takeFingerprint({ method: 'POST', path: '/refunds', value: 1 })
        return { a: 1 }
      },
    }
    const charge = { method: 'POST', path: '/charges' }
    expect(takeFingerprint({ ...charge, value: nested }).bytes).toEqual(takeFingerprint({ ...charge, value: { a: 1 } }).bytes)
  })

  test('takes a part that is null for one that is left out, as callers without types have it', () => {
    const nothing = { method: null, path: null, query: null, mediaType: null } as unknown as FingerprintRequest
    expect(difference({ body: 'x' }, { ...nothing, body: 'x' })).toBe(null)
  })

  test('names the outermost part when several differ', () => {
    const other: FingerprintRequest = { method: 'PUT', path: '/x', query: 'x', mediaType: 'text/plain', body: 'x' }
    expect(difference(request, other)).toBe('method')
    expect(difference(request, { ...other, method: 'POST' })).toBe('path')
    expect(difference(request, { ...other, method: 'POST', path: '/orders' })).toBe('query')
    expect(difference(request, { ...other, method: 'POST', path: '/orders', query: 'dry_run=1' })).toBe('mediaType')
  })

  test.each<[string, FingerprintRequest]>([
    ['the case of the method', { method: 'post' }],
    ['the question mark of the query', { query: '?dry_run=1' }],
    ['the case of the media type', { mediaType: 'Application/JSON' }],
    ['parameters of the media type', { mediaType: ' application/json ; charset="utf-8"; x=y' }],
    ['text or bytes', { body: Buffer.from(request.body as string) }],
  ])('does not see %s', (_, change) => {
    expect(difference(request, { ...request, ...change })).toBe(null)
  })

  test('sees the order of query parameters and how they are spelled', () => {
    expect(difference({ query: 'a=1&b=2' }, { query: 'b=2&a=1' })).toBe('query')
    expect(difference({ query: 'a=%20' }, { query: 'a=+' })).toBe('query')
  })

  test('counts what is left out as empty', () => {
    expect(difference({}, { method: '', path: '', query: '', mediaType: '', body: '' })).toBe(null)
  })

  test('does not mix up its parts', () => {
    expect(difference({ method: 'A', path: 'B' }, { method: 'AB', path: '' })).toBe('method')
    expect(difference({ path: 'a', query: 'b' }, { path: 'b', query: 'a' })).toBe('path')
  })

  test.each<[unknown]>([[{ amount: 100 }], [[]], [null], [7]])('refuses %o as a raw body', (body) => {
    expect(codeOf(() => createFingerprinter()({ ...request, body: body as string }))).toBe('fingerprint_input_invalid')
  })
})

describe('exclusions', () => {
  const exclude = { body: ['/sent_at'], query: ['attempt'] }

  test('let honest retries differ', () => {
    const retry = { ...request, body: '{"sent_at":2,"amount":100}', query: 'attempt=2&dry_run=1' }
    expect(difference(request, retry)).toBe('query')
    expect(difference(request, retry, { exclude })).toBe(null)
    expect(difference({ value: { a: 1, sent_at: 1 } }, { value: { a: 1 } }, { exclude })).toBe(null)
  })

  test('hide nothing else', () => {
    expect(difference(request, { ...request, body: '{"amount":101}' }, { exclude })).toBe('body')
    expect(difference(request, { ...request, query: 'dry_run=2&attempt=1' }, { exclude })).toBe('query')
    expect(difference({ value: { sent_at: 1 } }, {}, { exclude })).toBe('body')
  })

  test('are checked when the function is made', () => {
    expect(codeOf(() => createFingerprinter({ exclude: { body: ['sent_at'] } }))).toBe('option_invalid')
  })

  test('are refused when the query parameters are not a list of names', () => {
    expect(codeOf(() => createFingerprinter({ exclude: { query: 'sent_at' as never } }))).toBe('option_invalid')
  })
})

describe('secrets', () => {
  const first = { id: '2025', secret: 'the first secret of all' }
  const second = { id: '2026', secret: Buffer.from('the second secret of all') }
  const [plain, old, rotated, cleaned] = [[], [first], [second, first], [second]].map((secrets) => createFingerprinter({ secrets }))
  const stored = (takeFingerprint = plain) => takeFingerprint?.(request).bytes as Uint8Array

  test('change the fingerprint, and two processes with one secret agree', () => {
    expect(new Set([plain, old, cleaned].map((taker) => Buffer.from(stored(taker)).toString('hex'))).size).toBe(3)
    expect(stored(rotated)).toEqual(stored(cleaned))
    expect(stored(createFingerprinter({ secrets: [first] }))).toEqual(stored(old))
  })

  test('reach every part, so that no guess can be tested on any of them', () => {
    const pieces = (bytes: Uint8Array) => [0, 16, 20, 24, 28, 32].map((at) => Buffer.from(bytes.subarray(5 + at, 9 + at)).toString('hex'))
    const bare = pieces(stored(plain))
    expect(pieces(stored(old)).filter((piece, index) => piece === bare[index])).toEqual([])
  })

  test('can be rotated', () => {
    expect(rotated?.(request).differenceFrom(stored(old))).toBe(null)
    expect(rotated?.({ ...request, body: '{}' }).differenceFrom(stored(old))).toBe('body')
    expect(rotated?.(request).differenceFrom(stored(cleaned))).toBe(null)
  })

  test('can be introduced', () => {
    expect(old?.(request).differenceFrom(stored(plain))).toBe(null)
    expect(old?.({ ...request, path: '/x' }).differenceFrom(stored(plain))).toBe('path')
  })

  test('must be kept for as long as they are needed', () => {
    expect(codeOf(() => cleaned?.(request).differenceFrom(stored(old)))).toBe('fingerprint_incomparable')
    expect(codeOf(() => plain?.(request).differenceFrom(stored(old)))).toBe('fingerprint_incomparable')
  })

  test.each<[string, unknown[]]>([
    ['a short secret', [{ id: 'a', secret: 'fifteen bytes!!' }]],
    ['an empty id', [{ id: '', secret: 'sixteen bytes!!!' }]],
    ['no id', [{ secret: 'sixteen bytes!!!' }]],
    ['no secret', [{ id: 'a' }]],
    ['a secret that is neither text nor bytes', [{ id: 'a', secret: Array(32).fill(1) }]],
    ['an id twice', [first, { ...second, id: first.id }]],
  ])('are refused for %s', (_, secrets) => {
    expect(codeOf(() => createFingerprinter({ secrets: secrets as never }))).toBe('option_invalid')
  })

  test('may have sixteen bytes', () => {
    expect(codeOf(() => createFingerprinter({ secrets: [{ id: 'a', secret: 'sixteen bytes!!!' }] }))).toBe(null)
  })
})

describe('a fingerprint in turns', () => {
  const large = JSON.stringify(Array.from({ length: 60_000 }, (_, index) => ({ b: index, a: `${index}` })))
  const [older, newer] = ['older', 'newer'].map((id) => ({ id, secret: `${id}: sixteen bytes` }))

  test('is there at once for a small body', () => {
    const takeFingerprint = createFingerprinter()
    const taken = takeFingerprint.inTurns(request)
    expect(taken).not.toBeInstanceOf(Promise)
    expect((taken as Fingerprint).bytes).toEqual(takeFingerprint(request).bytes)
  })

  test.each(['application/json', 'application/json; charset=utf-7', 'text/plain'])(
    'is that of the same request, as %s',
    async (mediaType) => {
      const takeFingerprint = createFingerprinter()
      const taken = await takeFingerprint.inTurns({ ...request, mediaType, body: large })
      expect(taken.bytes).toEqual(takeFingerprint({ ...request, mediaType, body: large }).bytes)
      expect(taken.differenceFrom(takeFingerprint({ ...request, mediaType, body: `${large} ` }).bytes)).toBe(
        mediaType === 'application/json' ? null : 'body',
      )
    },
  )

  test('of a large body is compared with what older secrets and none signed', async () => {
    const taken = await createFingerprinter({ secrets: [newer, older] as FingerprintSecret[] }).inTurns({ ...request, body: large })
    for (const secrets of [[newer], [older], []]) {
      const earlier = createFingerprinter({ secrets: secrets as FingerprintSecret[] })
      expect(taken.differenceFrom(earlier({ ...request, body: large }).bytes)).toBe(null)
      expect(taken.differenceFrom(earlier({ ...request, body: large.replace('59999', '59998') }).bytes)).toBe('body')
    }
  })
})

describe('versions', () => {
  /** A later version that only looks at the path. */
  const fingerprintV2: FingerprintVersion = {
    number: 2,
    compute: ({ path = '' }, _, room = 0) => Buffer.from('\0'.repeat(room) + path),
    difference: (own, stored) => (Buffer.compare(own, stored) === 0 ? null : 'path'),
  }
  const oldRelease = createFingerprinter()
  const newRelease = createFingerprinter(
    {},
    new Map<number, FingerprintVersion>([
      [1, fingerprintV1],
      [2, fingerprintV2],
    ]),
  )

  test('store the newest', () => {
    expect(oldRelease(request).bytes[0]).toBe(1)
    expect(Buffer.from(newRelease(request).bytes)).toEqual(Buffer.concat([Buffer.of(2, 0, 0, 0, 0), Buffer.from('/orders')]))
    expect(newRelease({ ...request, body: 'x' }).differenceFrom(newRelease(request).bytes)).toBe(null)
  })

  test('compare what an older one stored by its own rules', () => {
    expect(newRelease(request).differenceFrom(oldRelease(request).bytes)).toBe(null)
    expect(newRelease({ ...request, body: '{}' }).differenceFrom(oldRelease(request).bytes)).toBe('body')
  })

  test('do not guess at one that they do not know', () => {
    expect(codeOf(() => oldRelease(request).differenceFrom(newRelease(request).bytes))).toBe('fingerprint_incomparable')
    expect(codeOf(() => oldRelease(request).differenceFrom(new Uint8Array()))).toBe('fingerprint_incomparable')
    expect(codeOf(() => oldRelease(request).differenceFrom(Uint8Array.of(0, 0, 0, 0, 0)))).toBe('fingerprint_incomparable')
  })

  test('see a fingerprint that was cut short as another request', () => {
    expect(oldRelease(request).differenceFrom(oldRelease(request).bytes.subarray(0, 12))).toBe('method')
  })
})
