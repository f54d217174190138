import { brotliCompressSync, gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { codeOf } from '../../test/support/code-of.js'
import { field, header, type KeySource, readKey } from './key-source.js'
import type { HttpBody, HttpRequest } from './request.js'

interface Native {
  readonly user: string
}

const bytesOf = (text: string): HttpBody => ({ bytes: new TextEncoder().encode(text) })

function requestWith({ headers = {}, body }: { headers?: Record<string, string[]>; body?: HttpBody }): HttpRequest<Native> {
  return {
    method: 'POST',
    path: '/transfers',
    query: '',
    headerLines: (name) => headers[name.toLowerCase()] ?? [],
    body: async () => body ?? Promise.reject(new Error('the body was touched')),
    native: { user: 'ada' },
  }
}

/** What `field(path)` reads from a JSON body: from its bytes, and from what a parser made of them, which must be the same. */
async function readMember(path: string, text: string) {
  const headers = { 'content-type': ['application/json'] }
  const fromBytes = await readKey(field(path), requestWith({ headers, body: bytesOf(text) }))
  const fromParsed = await readKey(field(path), requestWith({ body: { parsed: JSON.parse(text) } }))
  expect(fromParsed).toEqual(fromBytes)
  return fromBytes
}

describe('header()', () => {
  test('describes itself, Idempotency-Key and in the syntax of the profile unless told otherwise', () => {
    expect(header()).toEqual({ kind: 'header', name: 'Idempotency-Key' })
    expect(header('X-Request-Id', { syntax: 'strict' })).toEqual({ kind: 'header', name: 'X-Request-Id', syntax: 'strict' })
    expect(header(undefined, {})).toEqual(header())
  })

  test.each<[unknown]>([[''], ['a b'], ['a:'], ['é'], ['a\n'], [null], [1], [['a']]])('refuses %o as a name', (name) => {
    expect(codeOf(() => header(name as string))).toBe('option_invalid')
  })

  test.each<[unknown]>([['Strict'], [''], [null], [true]])('refuses %o as a syntax', (syntax) => {
    expect(codeOf(() => header('Idempotency-Key', { syntax: syntax as 'strict' }))).toBe('option_invalid')
  })

  test('reads its own header in its own syntax, and leaves the body alone', async () => {
    const request = requestWith({ headers: { 'idempotency-key': ['abc'], 'x-key': ['"x"'] } })
    expect(await readKey(header(), request)).toEqual({ key: 'abc' })
    expect(await readKey(header('Idempotency-Key', { syntax: 'strict' }), request)).toHaveProperty('invalid')
    expect(await readKey(header('X-Key', { syntax: 'strict' }), request)).toEqual({ key: 'x' })
    expect(await readKey(header('Y-Key'), request)).toEqual({ missing: true })
  })

  test('is given all lines', async () => {
    const request = requestWith({ headers: { 'idempotency-key': ['abc', 'def'] } })
    expect(await readKey(header(), request)).toHaveProperty('invalid')
  })
})

describe('field()', () => {
  test('describes itself', () => {
    expect(field('transfer.client_reference')).toEqual({ kind: 'field', path: 'transfer.client_reference' })
  })

  test.each<[unknown]>([[''], ['.'], ['.a'], ['a.'], ['a..b'], [null], [undefined], [1], [['a']]])('refuses %o as a path', (path) => {
    expect(codeOf(() => field(path as string))).toBe('option_invalid')
  })

  test.each<[string, string, string]>([
    ['reference', '{"reference":"abc"}', 'abc'],
    ['transfer.reference', '{"reference":"no","transfer":{"reference":"abc"}}', 'abc'],
    ['a.b.c', '{"a":{"b":{"c":"abc"}}}', 'abc'],
    ['é', '{"\\u00e9":"ü, 😀"}', 'ü, 😀'],
    ['__proto__', '{"__proto__":"abc"}', 'abc'],
    ['a', `{"a":"${'k'.repeat(255)}"}`, 'k'.repeat(255)],
    ['0', '{"0":"abc"}', 'abc'],
    // As the handler's parser reads it.
    ['a', '{"a":"first","a":"last"}', 'last'],
    // Quotes and parameters are a header's business.
    ['a', '{"a":"\\"k\\";x=1"}', '"k";x=1'],
  ])('reads %s of %s', async (path, text, key) => {
    expect(await readMember(path, text)).toEqual({ key })
  })

  test.each<[string, string]>([
    ['a', '{}'],
    ['a', '{"a":null}'],
    ['a', '{"A":"x"}'],
    ['a.b', '{"a":null}'],
    ['a.b', '{"a":"text"}'],
    ['a.b', '{"a.b":"x"}'],
    ['a.length', '{"a":"text"}'],
    ['a.length', '{"a":[]}'],
    ['a.0', '{"a":["x"]}'],
    ['0', '["x"]'],
    ['0', '"text"'],
    ['length', '"text"'],
    ['a', 'null'],
    ['a', '1'],
    ['toString', '{}'],
    ['constructor.name', '{}'],
    ['__proto__', '{}'],
    ['__proto__.toString.name', '{}'],
  ])('finds no key at %s of %s', async (path, text) => {
    expect(await readMember(path, text)).toEqual({ missing: true })
  })

  test.each<[string, string]>([
    ['{"a":{"b":1}}', 'of type number'],
    ['{"a":{"b":0}}', 'of type number'],
    ['{"a":{"b":false}}', 'of type boolean'],
    ['{"a":{"b":["x"]}}', 'of type object'],
    ['{"a":{"b":{}}}', 'of type object'],
    ['{"a":{"b":""}}', 'is empty'],
    [`{"a":{"b":"${'k'.repeat(256)}"}}`, 'has 256 characters'],
    ['{"a":{"b":"x\\u0000"}}', 'NUL'],
    ['{"a":{"b":"\\ud800"}}', 'lone surrogate'],
  ])('refuses %s, and says why and where', async (text, reason) => {
    const reading = await readMember('a.b', text)
    expect(reading).toEqual({ invalid: expect.stringMatching(/^The key .*Use a text of 1 to 255 characters.*member "a\.b"\.$/) })
    expect(reading).toEqual({ invalid: expect.stringContaining(reason) })
  })

  test.each(['application/json', 'Application/JSON; charset=utf-8', ' application/json ;x', 'application/merge-patch+json'])(
    'reads %s',
    async (type) => {
      const request = requestWith({ headers: { 'content-type': [type] }, body: bytesOf('{"a":"abc"}') })
      expect(await readKey(field('a'), request)).toEqual({ key: 'abc' })
    },
  )

  test.each([[], ['text/plain'], ['application/x-www-form-urlencoded'], ['application/json-seq'], ['text/plain; a=application/json']])(
    'finds no key in bytes of the type %s',
    async (...type) => {
      const request = requestWith({ headers: { 'content-type': type }, body: bytesOf('{"a":"abc"}') })
      expect(await readKey(field('a'), request)).toEqual({ missing: true })
    },
  )

  test('finds no key where there are no bytes', async () => {
    const request = requestWith({ headers: { 'content-type': ['application/json'] }, body: bytesOf('') })
    expect(await readKey(field('a'), request)).toEqual({ missing: true })
  })

  test.each<[string, Uint8Array]>([
    ...[' ', '{"a":"abc"', '{"a":"abc"}}', "{a:'abc'}"].map((text): [string, Uint8Array] => [text, Buffer.from(text)]),
    ['of 100,000 levels', Buffer.from('['.repeat(100_000))],
    ['not UTF-8', Buffer.concat([Buffer.from('{"a":"ab'), Buffer.of(0xff), Buffer.from('"}')])],
    ['UTF-16', Buffer.from('{"a":"abc"}', 'utf16le')],
    ['compressed', gzipSync('{"a":"abc"}')],
    ['compressed in another way', brotliCompressSync('{"a":"abc"}')],
  ])('does not call a key missing in a body that it cannot read: %s', async (_, bytes) => {
    const request = requestWith({ headers: { 'content-type': ['application/json'] }, body: { bytes } })
    expect(await readKey(field('a'), request)).toEqual({ invalid: expect.stringMatching(/not JSON in UTF-8.*"a"/) })
  })

  test('reads JSON behind a byte order mark', async () => {
    const request = requestWith({ headers: { 'content-type': ['application/json'] }, body: bytesOf('\ufeff{"a":"abc"}') })
    expect(await readKey(field('a'), request)).toEqual({ key: 'abc' })
  })

  test('finds no key where a parser found no body', async () => {
    expect(await readKey(field('a'), requestWith({ body: { parsed: undefined } }))).toEqual({ missing: true })
  })

  test('does not call a key missing whose body did not arrive', async () => {
    for (const failed of ['too_large', 'incomplete'] as const) {
      expect(await readKey(field('a'), requestWith({ body: { failed } }))).toEqual({ invalid: expect.stringContaining('"a"') })
    }
  })

  test('reads any value anywhere without an error', async () => {
    const names = fc.constantFrom('a', 'b', 'length', '__proto__', 'constructor', 'toString')
    const values = fc.object({ key: names, maxDepth: 3, withNullPrototype: true })
    await fc.assert(
      fc.asyncProperty(values, fc.array(names, { minLength: 1, maxLength: 3 }), async (parsed, path) => {
        const reading = await readKey(field(path.join('.')), requestWith({ body: { parsed } }))
        expect(['key', 'missing', 'invalid']).toContain(Object.keys(reading).join())
      }),
    )
  })
})

describe('a function', () => {
  const readFrom = (source: KeySource<Native>) => readKey(source, requestWith({}))

  test("is given the framework's request", async () => {
    expect(await readFrom((request) => request.user)).toEqual({ key: 'ada' })
    expect(await readFrom(async (request) => `${request.user}-1`)).toEqual({ key: 'ada-1' })
  })

  test('may find none', async () => {
    expect(await readFrom(() => undefined)).toEqual({ missing: true })
    expect(await readFrom(() => null)).toEqual({ missing: true })
    expect(await readFrom(async () => undefined)).toEqual({ missing: true })
  })

  test.each<[unknown]>([[''], ['k'.repeat(256)], ['\0'], ['\ud800'], [1], [false], [['k']], [{}]])('is not believed %o', async (value) => {
    expect(await readFrom(() => value as string)).toEqual({ invalid: expect.stringMatching(/^The key .*Use a text of 1 to 255/) })
  })

  test('may throw', async () => {
    const failure = new Error('no session')
    await expect(readFrom(() => Promise.reject(failure))).rejects.toBe(failure)
    await expect(
      readFrom(() => {
        throw failure
      }),
    ).rejects.toBe(failure)
  })
})

test('no reading repeats the value', async () => {
  const secret = 'hunter2'.repeat(50)
  const headers = { 'idempotency-key': [secret], 'content-type': ['application/json'] }
  const request = requestWith({ headers, body: bytesOf(JSON.stringify({ a: secret, b: [secret] })) })
  for (const source of [header(), field('a'), field('b'), () => secret]) {
    const reading = await readKey(source, request)
    expect(reading).toHaveProperty('invalid')
    expect(JSON.stringify(reading)).not.toContain('hunter2')
  }
})
