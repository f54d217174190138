import { expect, test } from 'vitest'
import { keyListValue } from './key-list.js'

test('whoever lists the same keys lists them in the same order', () => {
  const [a1, a2, b1] = [
    { tenant: 'a', id: '10000000-0000-8000-8000-000000000000' },
    { tenant: 'a', id: '20000000-0000-8000-8000-000000000000' },
    { tenant: 'b', id: '00000000-0000-8000-8000-000000000000' },
  ]
  const inOrder = JSON.stringify([a1, a2, b1])
  expect(keyListValue([b1, a2, { ...a1, more: 1 }])).toBe(inOrder)
  expect(keyListValue([a2, a1, b1])).toBe(inOrder)
})
