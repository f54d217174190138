import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isOncekeyError } from '../errors.js'
import { canonicalBody, canonicalValue } from './canonical-body.js'

/** The form and the bytes as text, which is how they are easiest to read. */
function shown(body: Uint8Array | string | undefined, mediaType = 'application/json', excluded: string[] = []) {
  const { form, content } = canonicalBody(body, mediaType, excluded)
  return `${form} ${textOf(content)}`
}

const textOf = (content: Uint8Array | string) => (typeof content === 'string' ? content : new TextDecoder().decode(content))

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

  test.each([['{"a":1,"a":2}'], ['9007199254740993'], ['{"a":'], ["{'a':1}"], ['"\\ud800"'], ['{"\\ud800":1}'], ['NaN'], ['01'], ['1 1']])(
    'keeps the bytes of %s',
    (text) => {
      expect(shown(text)).toBe(`bytes ${text}`)
    },
  )

  test('keeps the bytes of very deep nesting', () => {
    expect(canonicalBody(`${'['.repeat(300)}${']'.repeat(300)}`, 'application/json', []).form).toBe('bytes')
  })

  test('keeps bytes that are not UTF-8', () => {
    const bytes = Uint8Array.of(0x22, 0xff, 0x22)
    expect(canonicalBody(bytes, 'application/json', [])).toEqual({ form: 'bytes', content: bytes })
  })

  test('leaves excluded members out', () => {
    expect(shown('{"sent_at":1,"a":2}', 'application/json', ['/sent_at'])).toBe('json {"a":2}')
  })

  test('takes any bytes and any text under any media type', () => {
    const bodies = fc.oneof(fc.uint8Array(), fc.string({ unit: 'binary' }), fc.json())
    fc.assert(
      fc.property(bodies, fc.oneof(fc.constant('application/json'), fc.string()), fc.boolean(), (body, mediaType, excluding) => {
        const { form, content } = canonicalBody(body, mediaType, excluding ? ['/a'] : [])
        expect(['none', 'json', 'bytes']).toContain(form)
        expect(content instanceof Uint8Array).toBe(form === 'bytes')
      }),
      { numRuns: 200 },
    )
  })
})

describe('canonicalValue', () => {
  test('writes a value as canonicalBody writes its JSON', () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: 'binary' }), (value) => {
        expect(canonicalValue(value, [])).toEqual(canonicalBody(JSON.stringify(value), 'application/json', []))
      }),
    )
  })

  test('sees a value as JSON does', () => {
    const text = (value: unknown) => textOf(canonicalValue(value, []).content)
    expect(text({ b: new Date(0), a: undefined, c: [undefined] })).toBe('{"b":"1970-01-01T00:00:00.000Z","c":[null]}')
  })

  test('leaves the value itself alone when members are excluded', () => {
    const value = { sent_at: 1, a: 2 }
    canonicalValue(value, ['/sent_at'])
    expect(value).toEqual({ sent_at: 1, a: 2 })
  })

  test('refuses what is not JSON', () => {
    const cycle: unknown[] = []
    cycle.push(cycle)
    for (const value of [1n, { a: 1n }, cycle, () => 1, Symbol('x')]) {
      const refusal = (() => {
        try {
          return canonicalValue(value, [])
        } catch (error) {
          return error
        }
      })()
      expect(isOncekeyError(refusal, 'fingerprint_input_invalid')).toBe(true)
    }
  })
})
