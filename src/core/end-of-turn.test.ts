import { expect, test } from 'vitest'
import { atEndOfTurn, endOfTurn } from './end-of-turn.js'

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

test('what those who waited for the end of a turn have done next is not put off for another turn', async () => {
  const order: string[] = []
  const waiting = ['first', 'second'].map(async (name) => {
    await endOfTurn()
    order.push(name)
    if (name === 'first') atEndOfTurn(() => order.push('called back'))
    setImmediate(() => order.push('next turn'))
  })
  await Promise.all(waiting)
  await new Promise(setImmediate)
  expect(order).toEqual(['first', 'second', 'called back', 'next turn', 'next turn'])

  atEndOfTurn(() => order.push('by itself'))
  setImmediate(() => order.push('the turn is over'))
  await new Promise(setImmediate)
  expect(order.slice(5)).toEqual(['by itself', 'the turn is over'])
})
