import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { codeOf } from '../../../test/support/code-of.js'
import { canonicalBody } from './canonical-body.js'
import { checkPointers, excludedMembers, withoutParameters } from './exclusions.js'

describe('checkPointers', () => {
  test.each(['/a', '/', '/a/b', '/~0~1', '/a//b', '/é', '/a b', '/0'])('accepts %s', (pointer) => {
    expect(checkPointers([pointer])).toEqual([pointer])
  })

  test.each<[unknown]>([[''], ['a'], ['a/b'], ['/~'], ['/~2'], ['/a~'], ['#/a'], [1], [null], [undefined], [{}]])(
    'refuses %o',
    (pointer) => {
      expect(codeOf(() => checkPointers(['/a', pointer as string]))).toBe('option_invalid')
    },
  )

  test('refuses a bigint', () => {
    expect(codeOf(() => checkPointers([1n as never]))).toBe('option_invalid')
  })
})

describe('excludedMembers', () => {
  const without = (value: unknown, ...pointers: string[]): unknown =>
    JSON.parse(Buffer.concat(canonicalBody({ value }, '', excludedMembers(checkPointers(pointers)))).toString('utf8', 'body:json:'.length))

  test('takes out members at any depth, also inside arrays', () => {
    const value = { a: 1, meta: { a: 1, sent_at: 2 }, items: [{ a: 1 }, { a: 2, b: 3 }] }
    expect(without(value, '/a')).toEqual({ meta: { a: 1, sent_at: 2 }, items: [{ a: 1 }, { a: 2, b: 3 }] })
    expect(without(value, '/meta/sent_at', '/items/1/a')).toEqual({ a: 1, meta: { a: 1 }, items: [{ a: 1 }, { b: 3 }] })
    expect(without(value, '/meta')).not.toHaveProperty('meta')
  })

  test('reads ~1 as a slash and ~0 as a tilde, in this order', () => {
    expect(without({ 'a/b': 1, 'a~b': 2, '~1': 3 }, '/a~1b')).toEqual({ 'a~b': 2, '~1': 3 })
    expect(without({ 'a/b': 1, 'a~b': 2, '~1': 3 }, '/a~0b', '/~01')).toEqual({ 'a/b': 1 })
    expect(without({ '': 1, a: 2 }, '/')).toEqual({ a: 2 })
  })

  test('leaves elements of arrays where they are', () => {
    expect(without([1, 2, 3], '/0')).toEqual([1, 2, 3])
    expect(without({ items: ['a', 'b'] }, '/items/0', '/items/length')).toEqual({ items: ['a', 'b'] })
  })

  test.each<[unknown]>([[null], [1], ['text'], [[]], [{}], [{ a: null }], [{ a: 'text' }], [{ a: [] }]])(
    'changes nothing in %o',
    (value) => {
      expect(without(value, '/a/b/c', '/length/x', '/toString')).toEqual(value)
    },
  )

  test('finds a member called __proto__', () => {
    expect(without(JSON.parse('{"__proto__":{"a":1,"b":2}}'), '/__proto__/a')).toEqual(JSON.parse('{"__proto__":{"b":2}}'))
  })

  test('takes out exactly the member it was pointed at', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.nat(), { noNullPrototype: true }), fc.string(), (value, name) => {
        const pointer = `/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
        const expected = Object.fromEntries(Object.entries(value).filter(([other]) => other !== name))
        expect(without({ ...value, [name]: 1 }, pointer)).toEqual(JSON.parse(JSON.stringify(expected)))
      }),
    )
  })
})

describe('withoutParameters', () => {
  test('keeps the raw query where nothing is excluded', () => {
    expect(withoutParameters('b=1&&a=%7e&a', [])).toBe('b=1&&a=%7e&a')
  })

  test('takes out every occurrence, whatever its value and spelling', () => {
    expect(withoutParameters('a=1&utm=2&b=3&utm&utm=&%75tm=4', ['utm'])).toBe('a=1&b=3')
    expect(withoutParameters('sent+at=1&sent%20at=2&c=3', ['sent at'])).toBe('c=3')
    expect(withoutParameters('utm=1', ['utm'])).toBe('')
  })

  test('keeps the rest as it was spelled and in its order', () => {
    expect(withoutParameters('b=%7e&x=1&a=+&b=2', ['x'])).toBe('b=%7e&a=+&b=2')
    expect(withoutParameters('utm_source=1&UTM=2&xutm=3', ['utm'])).toBe('utm_source=1&UTM=2&xutm=3')
  })

  test('keeps a parameter whose name only begins with a question mark', () => {
    expect(withoutParameters('a=1&?utm=1', ['utm'])).toBe('a=1&?utm=1')
  })

  test('takes any query', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...'ab=&%+?#1é') }), (query) => {
        expect(withoutParameters(query, ['a', 'b'])).not.toMatch(/(^|&)[ab](=|&|$)/)
      }),
    )
  })
})
