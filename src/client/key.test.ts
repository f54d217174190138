import { afterEach, expect, test, vi } from 'vitest'
import { keyOf, newKey } from './key.js'

const uuid = /^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/
const { crypto } = globalThis

afterEach(() => vi.unstubAllGlobals())

test('a key is a UUID, and a new one each time', () => {
  const keys = Array.from({ length: 100 }, newKey)
  expect(keys.filter((key) => !uuid.test(key))).toEqual([])
  expect(new Set(keys).size).toBe(100)
})

test('it is one without randomUUID, too', () => {
  vi.stubGlobal('crypto', { getRandomValues: (bytes: Uint8Array) => crypto.getRandomValues(bytes) })
  const keys = Array.from({ length: 100 }, newKey)
  expect(keys.filter((key) => !uuid.test(key))).toEqual([])
  expect(new Set(keys).size).toBe(100)
})

test.each([{}, undefined])('without any randomness it says what to load', (nothing) => {
  vi.stubGlobal('crypto', nothing)
  expect(newKey).toThrow('react-native-get-random-values')
})

test('the key is what the header says, quoted or not', () => {
  expect(['order-1', '"order-1"', '"a\\"b\\\\c"', '"order-1";v=1', 'it"s'].map(keyOf)).toEqual([
    'order-1',
    'order-1',
    'a"b\\c',
    'order-1',
    'it"s',
  ])
})
