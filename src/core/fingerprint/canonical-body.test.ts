import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { codeOf } from '../../../test/support/code-of.js'
import { canonicalBody, canonicalBodyInTurns } from './canonical-body.js'
import { excludedMembers } from './exclusions.js'

/** The form and the bytes as text, which is how they are easiest to read. */
const shown = (body: Uint8Array | string | undefined, mediaType = 'application/json', excluded: string[] = []) =>
  textOf(canonicalBody({ body }, mediaType, excludedMembers(excluded)))

const shownValue = (value: unknown, excluded: string[] = []) => textOf(canonicalBody({ value }, '', excludedMembers(excluded)))

const textOf = (pieces: readonly Uint8Array[]) =>
  Buffer.concat(pieces)
    .toString()
    .replace(/^body:(\w+):/, '$1 ')

describe('canonicalBody', () => {
  test('writes JSON in one way', () => {
    expect(shown('{ "b" : [1.0, 1e2, -0], "a" : "\\u00e9" }')).toBe('json {"a":"é","b":[1,100,0]}')
  })

  test('reads bytes and text alike', () => {
    expect(shown(new TextEncoder().encode('{"é":1}'))).toBe(shown('{"é":1}'))
  })

  test.each(['application/json', 'application/problem+json', 'application/vnd.orders+json'])('knows %s as JSON', (mediaType) => {
    expect(shown(' 1', mediaType)).toBe('json 1')
  })

  test.each(['', 'text/plain', 'text/json', 'application/jsonp', 'application/json-seq', 'json'])(
    'does not know "%s" as JSON',
    (mediaType) => {
      expect(shown(' 1', mediaType)).toBe('bytes  1')
    },
  )

  test('tells no body from an empty object, null, an empty text and white space', () => {
    expect(['', '{}', 'null', '""', ' '].map((body) => shown(body))).toEqual(['none ', 'json {}', 'json null', 'json ""', 'bytes  '])
    expect(shown(undefined)).toBe('none ')
    expect(shown(new Uint8Array())).toBe('none ')
  })

  test.each(['', '; charset=utf-8', ';charset="UTF-8"', '; charset=utf8', '; profile="a"', '; charset = UTF-8; q=1'])(
    'reads JSON with the parameter "%s"',
    (parameter) => {
      expect(shown(' 1', `application/json${parameter}`)).toBe('json 1')
    },
  )

  test.each([
    '; charset=utf-7',
    ';CHARSET="utf-16"',
    '; charset=utf-8; charset=utf-7',
    '; charset=iso-8859-1',
    '; charset=',
    "; charset='utf-7'",
  ])('keeps the bytes of JSON with the parameter "%s"', (parameter) => {
    expect(shown(' 1', `application/json${parameter}`)).toBe('bytes  1')
  })

  test.each([['{"a":1,"a":2}'], ['9007199254740993'], ['{"a":'], ["{'a':1}"], ['"\\ud800"'], ['{"\\ud800":1}'], ['NaN'], ['01'], ['1 1']])(
    'keeps the bytes of %s',
    (text) => {
      expect(shown(text)).toBe(`bytes ${text}`)
    },
  )

  test('keeps the bytes of very deep nesting', () => {
    expect(shown(`${'['.repeat(300)}${']'.repeat(300)}`)).toMatch(/^bytes \[/)
  })

  test('keeps bytes that are not UTF-8', () => {
    const bytes = Uint8Array.of(0x22, 0xff, 0x22)
    expect(canonicalBody({ body: bytes }, 'application/json', [])).toEqual([Buffer.from('body:bytes:'), bytes])
  })

  test('leaves excluded members out', () => {
    expect(shown('{"sent_at":1,"a":2}', 'application/json', ['/sent_at'])).toBe('json {"a":2}')
  })

  test('takes any bytes and any text under any media type', () => {
    const bodies = fc.oneof(fc.uint8Array(), fc.string({ unit: 'binary' }), fc.json())
    fc.assert(
      fc.property(bodies, fc.oneof(fc.constant('application/json'), fc.string()), fc.boolean(), (body, mediaType, excluding) => {
        expect(shown(body, mediaType, excluding ? ['/a'] : [])).toMatch(/^(none|json|bytes) /)
      }),
      { numRuns: 200 },
    )
  })
})

describe('canonicalBody of a value', () => {
  test('is that of its JSON', () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: 'binary' }), (value) => {
        expect(shownValue(value)).toEqual(shown(JSON.stringify(value)))
      }),
    )
  })

  test('sees a value as JSON does', () => {
    expect(shownValue({ b: new Date(0), a: undefined, c: [undefined] })).toBe('json {"b":"1970-01-01T00:00:00.000Z","c":[null]}')
  })

  test('leaves the value itself alone when members are excluded', () => {
    const value = { sent_at: 1, a: 2 }
    expect(shownValue(value, ['/sent_at'])).toBe('json {"a":2}')
    expect(value).toEqual({ sent_at: 1, a: 2 })
  })

  test('refuses what is not JSON', () => {
    const cycle: unknown[] = []
    cycle.push(cycle)
    for (const value of [1n, { a: 1n }, cycle, () => 1, Symbol('x')])
      expect(codeOf(() => shownValue(value))).toBe('fingerprint_input_invalid')
  })

  test('refuses JSON that is nested too deep as the wrong input that it is', () => {
    let deep: unknown = 1
    // By way of toJSON(): newer V8s write plain arrays of any depth.
    for (let depth = 0; depth < 100_000; depth += 1) {
      const inner = deep
      deep = { toJSON: () => [inner] }
    }
    expect(codeOf(() => shownValue(deep))).toBe('input_invalid')
  })
})

describe('canonicalBodyInTurns', () => {
  const large = JSON.stringify(Array.from({ length: 60_000 }, (_, index) => ({ b: index, a: `${index}` })))

  test('answers at once for a small body', () => {
    expect(textOf(canonicalBodyInTurns({ body: '{"b":1,"a":2}' }, 'application/json', []) as Uint8Array[])).toBe('json {"a":2,"b":1}')
  })

  test('lets the event loop turn for a large one, and says the same', async () => {
    let turns = 0
    const turn = () => {
      turns += 1
      ticking = setImmediate(turn)
    }
    let ticking = setImmediate(turn)
    const pending = canonicalBodyInTurns({ body: large }, 'application/json', [])
    expect(pending).toBeInstanceOf(Promise)
    const later = textOf(await pending)
    clearImmediate(ticking)
    expect(turns).toBeGreaterThan(1)
    expect(later).toBe(shown(large))
  })

  test('goes on with one body in each turn, and mixes none up', async () => {
    const bodies = ['[1', '1', '{"a":1,"b":2}', '"x"'].map((last) => `${large.slice(0, -1)},${last}]`)
    const pending = bodies.map((body) => canonicalBodyInTurns({ body }, 'application/json', []))
    expect(shown('{"d":1,"c":2}')).toBe('json {"c":2,"d":1}')
    expect((await Promise.all(pending)).map(textOf)).toEqual(bodies.map((body) => shown(body)))
  })

  test('keeps what a small body of much work comes to, whatever comes after it', async () => {
    const body = `[${Array(10_000).fill('1e300')}]`
    const pending = canonicalBodyInTurns({ body }, 'application/json', [])
    expect(pending).toBeInstanceOf(Promise)
    expect(shown('[1,2]')).toBe('json [1,2]')
    expect(textOf(await pending)).toBe(`json [${Array(10_000).fill('1e+300')}]`)
  })
})
