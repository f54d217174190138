import { expect, test } from 'vitest'
import { startChild } from '../support/child.js'

test('of a request nothing stays in the heap that only a full collection would find', async () => {
  const { bytesOfEach } = await startChild('adapters/leftovers.ts', {}).message<{ bytesOfEach: number }>()
  // Code that is still being compiled leaves a little. A request that stays takes three thousand and more.
  expect(bytesOfEach).toBeLessThan(1_200)
})
