import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ByteBlocks } from './byte-blocks.js'

const piece = fc.oneof(
  fc.uint8Array({ maxLength: 20 }),
  fc.integer({ min: 0, max: 40_000 }).map((size) => new Uint8Array(size).fill(size % 251)),
)

test('gives back what was added, in order, however it came', () => {
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 40 }), fc.boolean(), (pieces, between) => {
      const gathered = new ByteBlocks()
      for (const each of pieces) {
        gathered.add(each)
        if (between && each.length % 3 === 0) gathered.blocks()
      }
      const expected = Buffer.concat(pieces)
      expect(gathered.length).toBe(expected.length)
      expect(Buffer.concat(gathered.blocks()).equals(expected)).toBe(true)
      expect(Buffer.from(gathered.bytes()).equals(expected)).toBe(true)
      expect(Buffer.from(gathered.bytes()).equals(expected)).toBe(true)
    }),
  )
})

test('keeps a single piece as it is, and few objects for many small ones', () => {
  const only = new Uint8Array(10)
  const single = new ByteBlocks()
  single.add(only)
  expect(single.bytes()).toBe(only)

  const many = new ByteBlocks()
  for (let count = 0; count < 100_000; count += 1) many.add(new Uint8Array(1))
  expect(many.blocks().length).toBeLessThan(10)
})
