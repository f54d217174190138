import { describe, expect, test } from 'vitest'
import { storableErrorText } from './storable-text.js'

describe('the text of an error', () => {
  test('is its message, of an Error or of anything else that has one', () => {
    expect(storableErrorText(new Error('down'))).toBe('down')
    expect(storableErrorText({ name: 'rate_limit_exceeded', message: 'slow down' })).toBe('slow down')
    expect(storableErrorText(Object.assign(new Error(), { message: ['to is empty', 'from is empty'] }))).toBe('to is empty,from is empty')
    expect([undefined, null, 410, 'gone', Symbol('s')].map(storableErrorText)).toEqual(['undefined', 'null', '410', 'gone', 'Symbol(s)'])
  })

  test('is there whatever was thrown', () => {
    const throws = () => {
      throw new Error('no')
    }
    const strange = [
      Object.create(null),
      { message: Object.create(null) },
      Object.defineProperty(new Error(), 'message', { get: throws }),
      { toString: throws },
      new Proxy({}, { has: throws, get: throws }),
    ]
    expect(new Set(strange.map(storableErrorText))).toEqual(new Set(['an error without a message']))
  })

  test('is of characters that any store can keep', () => {
    expect(storableErrorText(new Error('a\0b\uD800'))).toBe('a\uFFFDb\uFFFD')
  })
})
