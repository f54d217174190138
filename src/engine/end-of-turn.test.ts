import { expect, test } from 'vitest'
import { endOfTurn } from './end-of-turn.js'

test('all who ask in one turn of the event loop go on at its end, in their order; the next turn has an end of its own', async () => {
  const order: string[] = []
  setImmediate(() => order.push('the turn is over'))
  const first = endOfTurn().then(() => order.push('first'))
  const second = endOfTurn().then(() => order.push('second'))
  order.push('asked')
  await Promise.all([first, second])
  expect(order).toEqual(['asked', 'the turn is over', 'first', 'second'])

  setImmediate(() => order.push('the next one, too'))
  await endOfTurn()
  expect(order.at(-1)).toBe('the next one, too')
})
