import { expect, test } from 'vitest'
import { randomUuid } from './uuid.js'

test('a random UUID is one of version 4, and another one each time', () => {
  const made = Array.from({ length: 1_000 }, randomUuid)
  for (const uuid of made) expect(uuid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  expect(new Set(made).size).toBe(made.length)
})

test('each digit of one that is not given is random', () => {
  const seen = Array.from({ length: 36 }, () => new Set<string>())
  for (let count = 0; count < 1_000; count += 1) for (const [at, digit] of [...randomUuid()].entries()) seen[at]?.add(digit)
  const kinds = seen.map(({ size }) => size)
  expect(kinds.filter((kind) => kind === 16)).toHaveLength(30)
  expect([kinds[8], kinds[13], kinds[14], kinds[18], kinds[19], kinds[23]]).toEqual([1, 1, 1, 1, 4, 1])
})
