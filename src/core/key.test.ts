import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isOncekeyError } from './errors.js'
import { checkKeyRef, isKeyId, type KeyRef, keyId, maxKeyLength } from './key.js'

const valid: KeyRef = { tenant: 'tenant-1', scope: 'POST /orders', key: 'key-1' }

const codes = { tenant: 'tenant_invalid', scope: 'scope_invalid', key: 'key_invalid' } as const
const names = ['tenant', 'scope', 'key'] as const

/** The error's code; null when nothing was thrown; any error that is not ours as it is. */
function codeOf(ref: unknown): unknown {
  try {
    checkKeyRef(ref as KeyRef)
    return null
  } catch (error) {
    return isOncekeyError(error) ? error.code : error
  }
}

/** Written apart from the source: well-formed means that nothing is lost on the way through UTF-8. */
const survivesUtf8 = (text: string) => new TextDecoder().decode(new TextEncoder().encode(text)) === text

const isValidText = (value: unknown): value is string =>
  typeof value === 'string' && value.length >= 1 && value.length <= 255 && !value.includes('\u0000') && survivesUtf8(value)

/** Short texts of few letters, digits, colons and surrogate pairs, so that splits and length prefixes get in each other's way. */
const awkward = fc.string({ unit: fc.constantFrom('a', 'b', '1', ':', '-', 'é', '😀', '\uFFFD'), minLength: 1, maxLength: 6 })
const refs = fc.record({ tenant: awkward, scope: awkward, key: awkward })

describe('checkKeyRef', () => {
  test('returns the three parts and nothing else', () => {
    expect(checkKeyRef({ ...valid, afterFailure: 'rerun' } as KeyRef)).toEqual(valid)
  })

  test('accepts texts of 1 to 255 characters', () => {
    for (const name of names) {
      expect(codeOf({ ...valid, [name]: 'x' })).toBe(null)
      expect(codeOf({ ...valid, [name]: 'x'.repeat(255) })).toBe(null)
      expect(codeOf({ ...valid, [name]: '😀'.repeat(127) })).toBe(null)
      expect(codeOf({ ...valid, [name]: 'x'.repeat(256) })).toBe(codes[name])
    }
    expect(maxKeyLength).toBe(255)
  })

  test.each<[string, unknown]>([
    ['an empty text', ''],
    ['a NUL', 'a\u0000b'],
    ['a high surrogate alone', 'a\uD800'],
    ['a low surrogate alone', '\uDC00a'],
    ['surrogates the wrong way round', '\uDC00\uD800'],
    ['null', null],
    ['nothing', undefined],
    ['a number', 42],
    ['a boxed text', new String('key-1')],
    ['a list', ['key-1']],
  ])('refuses %s with the code of its part', (_, value) => {
    for (const name of names) expect(codeOf({ ...valid, [name]: value })).toBe(codes[name])
  })

  test('refuses exactly what a store could not keep, and never with another error', () => {
    const texts = fc.oneof(fc.string({ unit: 'binary', maxLength: 300 }), fc.string({ unit: fc.constantFrom('\uD83D', '\uDE00', 'a') }))
    fc.assert(
      fc.property(fc.constantFrom(...names), fc.oneof(texts, fc.anything()), (name, value) => {
        expect(codeOf({ ...valid, [name]: value })).toBe(isValidText(value) ? null : codes[name])
      }),
      { numRuns: 500 },
    )
  })

  test('names the outermost part when several are wrong', () => {
    expect(codeOf({ tenant: '', scope: '', key: '' })).toBe('tenant_invalid')
    expect(codeOf({ tenant: 'a', scope: '', key: '' })).toBe('scope_invalid')
  })

  test('says what is wrong without repeating the key', () => {
    expect(() => checkKeyRef({ ...valid, key: `secret${'x'.repeat(300)}` })).toThrow(/^The key has 306 characters\. (?!.*secret)/)
  })
})

describe('keyId', () => {
  test('makes the same id of the same three parts', () => {
    fc.assert(
      fc.property(refs, (ref) => {
        expect(keyId({ ...ref })).toBe(keyId(ref))
      }),
    )
  })

  test('makes a version 8 UUID', () => {
    fc.assert(
      fc.property(refs, (ref) => {
        expect(isKeyId(keyId(ref))).toBe(true)
        expect(keyId(ref)).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
      }),
    )
  })

  test('never changes: stored rows are found by it', () => {
    expect(keyId(valid)).toBe('a86e796e-b9b6-834d-989a-5c1fc24853e0')
  })

  test('makes different ids of different parts', () => {
    const pairs = fc.tuple(refs, refs)
    const same = (a: KeyRef, b: KeyRef) => names.every((name) => a[name] === b[name])
    fc.assert(
      fc.property(pairs, ([a, b]) => {
        expect(keyId(a) === keyId(b)).toBe(same(a, b))
      }),
      { numRuns: 1_000 },
    )
  })

  test('makes different ids of all splits of one text, those that imitate a length prefix too', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom('a', '1', ':', '2'), minLength: 3, maxLength: 9 }), (text) => {
        const ids = new Set<string>()
        let splits = 0
        for (let first = 0; first <= text.length; first += 1) {
          for (let second = first; second <= text.length; second += 1) {
            ids.add(keyId({ tenant: text.slice(0, first), scope: text.slice(first, second), key: text.slice(second) }))
            splits += 1
          }
        }
        expect(ids.size).toBe(splits)
      }),
    )
  })

  test('tells apart what looks alike', () => {
    const ids = ['é', 'e\u0301', 'É', 'e', 'é ', '\uFFFD'].map((key) => keyId({ ...valid, key }))
    expect(new Set(ids).size).toBe(6)
  })
})
