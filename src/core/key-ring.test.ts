import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { codeOf } from '../../test/support/code-of.js'
import { type EncryptionOptions, keyRing } from './key-ring.js'

const bytes = randomBytes(32)
const ringOf = (...keys: unknown[]) => keyRing({ keys } as EncryptionOptions)

describe('keyRing', () => {
  test('takes 32 bytes, and their base64 and hex, for the same key', () => {
    const forms = [bytes, new Uint8Array(bytes), bytes.toString('base64'), bytes.toString('hex'), bytes.toString('hex').toUpperCase()]
    for (const key of forms) expect(ringOf({ id: 'a', key }).current.key.export().equals(bytes)).toBe(true)
  })

  test('seals with the first key, and finds each by its id', () => {
    const [first, second] = [randomBytes(32), randomBytes(32)]
    const ring = ringOf({ id: 'first', key: first }, { id: 'second', key: second })
    expect(ring.current.id).toBe('first')
    expect(ring.find('first')?.export().equals(first)).toBe(true)
    expect(ring.find('second')?.export().equals(second)).toBe(true)
    expect(ring.find('third')).toBeUndefined()
    expect(ring.find('__proto__')).toBeUndefined()
  })

  test('does not change with the bytes it was given', () => {
    const key = new Uint8Array(bytes)
    const ring = ringOf({ id: 'a', key })
    key.fill(0)
    expect(ring.current.key.export().equals(bytes)).toBe(true)
  })

  test.each<[string, unknown]>([
    ['no key', undefined],
    ['16 bytes', randomBytes(16)],
    ['33 bytes', randomBytes(33)],
    ['a list of numbers', [...bytes]],
    ['a password', 'correct horse battery staple'],
    ['a password of 32 characters', 'x'.repeat(32)],
    ['base64 of 24 bytes', randomBytes(24).toString('base64')],
    ['base64 without its padding', bytes.toString('base64').slice(0, -1)],
    ['base64 with a line break', `${bytes.toString('base64')}\n`],
    ['base64 with bits to spare', `${'A'.repeat(42)}B=`],
    ['hex of 31 bytes', bytes.toString('hex').slice(2)],
    ['hex with a prefix', `0x${bytes.toString('hex')}`],
    ['an empty text', ''],
  ])('refuses %s, and does not repeat it', (_, key) => {
    expect(codeOf(() => ringOf({ id: 'a', key }))).toBe('option_invalid')
    expect(() => ringOf({ id: 'a', key })).toThrow(/32 bytes.*openssl rand/)
    if (key) expect(() => ringOf({ id: 'a', key })).not.toThrow(String(key))
  })

  test.each<[string, unknown]>([
    ['no id', undefined],
    ['an empty id', ''],
    ['a number', 1],
    ['65 characters', 'x'.repeat(65)],
    ['a line break', 'a\n'],
    ['an umlaut', 'schlüssel'],
  ])('refuses %s for an id', (_, id) => {
    expect(codeOf(() => ringOf({ id, key: bytes }))).toBe('option_invalid')
  })

  test.each(['x', 'x'.repeat(64), 'key-2026 (eu)', ' ~'])('takes %o for an id', (id) => {
    expect(ringOf({ id, key: bytes }).current.id).toBe(id)
  })

  test('refuses an id that is there twice', () => {
    expect(codeOf(() => ringOf({ id: 'a', key: bytes }, { id: 'a', key: randomBytes(32) }))).toBe('option_invalid')
  })

  test.each<[string, unknown]>([
    ['no keys', {}],
    ['an empty list', { keys: [] }],
    ['one key that is no list', { keys: { id: 'a', key: bytes } }],
    ['a key that is nothing', { keys: [null] }],
    ['nothing', null],
    ['a key itself', 'a key'],
  ])('refuses %s', (_, options) => {
    expect(codeOf(() => keyRing(options as EncryptionOptions))).toBe('option_invalid')
  })
})
