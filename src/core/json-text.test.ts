import fc from 'fast-check'
import { expect, test } from 'vitest'
import { inAscii, parsedAscii } from './json-text.js'

test('any JSON comes back as it was', () => {
  const anything = fc.jsonValue({ stringUnit: 'binary' })
  fc.assert(
    fc.property(anything, (value) => {
      const text = inAscii(JSON.stringify(value))
      expect(text).toMatch(/^[\0-\x7f]*$/)
      expect(JSON.stringify(parsedAscii(text))).toBe(JSON.stringify(value))
    }),
  )
})

test('escapes that the value itself has stay what they are', () => {
  const value = { text: '\\u540d', '\\': '\\\\u00e9', '"\n\u0000': '\ud800', 名: '\u{10ffff}' }
  expect(parsedAscii(inAscii(JSON.stringify(value)))).toEqual(value)
})

// V8 of Node 24 and 26 goes by the names of objects that it has parsed before.
test.each(['', 'ab'])('a name comes back whatever was parsed before: "%s名"', (begin) => {
  JSON.parse(`{"${begin}id":0,"${begin}\\\\":1}`)
  expect(parsedAscii(inAscii(`{"${begin}id":0,"${begin}名":1}`))).toEqual({ [`${begin}id`]: 0, [`${begin}名`]: 1 })
})
