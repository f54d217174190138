import { expect, test } from 'vitest'
import { binaryArray } from './array-binary.js'
import type { Element } from './array-literal.js'

const itself = (element: Element) => element
const hexOf = (type: string, elements: Element[]) => Buffer.from(binaryArray(type, elements, itself)).toString('hex')

test('is written as the protocol has it', () => {
  const head = '00000001' + '00000000' + '00000017' + '00000002' + '00000001'
  expect(hexOf('integer', [1, -2])).toBe(`${head}000000040000000100000004fffffffe`)
})

test('has no elements where there is nothing but nulls', () => {
  expect(hexOf('text', [null, null])).toBe('00000000' + '00000001' + '00000019')
  expect(hexOf('uuid', [])).toBe('00000000' + '00000000' + '00000b86')
})

test.each([
  'no uuid',
  '',
  '0b1b9a2c-3c1d-8e4f-9a2b-1c3d5e7f9a0',
  '0b1b9a2c-3c1d-8e4f-9a2b-1c3d5e7f9a0bc',
  '0b1b9a2c-3c1d-8e4f-9a2b-1c3d5e7f9a0g',
  '0b1b9a2c-3c1d-8e4f-9a2b-1c3d5e7f9aé1',
  '0b1b9a2c-3c1d-8e4f-9a2b-1c3d5e7f9a界1',
])('what is no UUID is an error, and no other UUID: %j', (text) => {
  expect(() => binaryArray('uuid', [text], itself)).toThrow(RangeError)
})

test.each([
  ['smallint', 40_000],
  ['integer', 2 ** 31],
])('a number that is too large for a %s is an error, and no other number', (type, number) => {
  expect(() => binaryArray(type, [number], itself)).toThrow(RangeError)
})
