import { expect, test } from 'vitest'
import { systemClock } from '../../../core/clock.js'
import { manualClock } from '../../../testing/index.js'
import { Breaker } from './breaker.js'

function setup() {
  const clock = manualClock()
  const breaker = new Breaker(clock, 10)
  let asked = 0
  const question = <T>(answer: () => Promise<T>) => {
    return breaker.ask(() => {
      asked += 1
      return answer()
    })
  }
  const fail = () => question(() => Promise.reject(new Error('down')))
  const ok = () => question(async () => 'yes')
  return { clock, question, fail, ok, asked: () => asked }
}

test('hands the answer on', async () => {
  expect(await setup().ok()).toEqual({ answer: 'yes' })
})

test('does not wait longer than the time-out, and minds no answer that comes later', async () => {
  const { clock, question } = setup()
  let reject = (_: Error) => {}
  const asking = question(
    () =>
      new Promise<never>((_, no) => {
        reject = no
      }),
  )
  clock.advance(10)
  expect(await asking).toBeUndefined()
  reject(new Error('too late, and nobody is there to catch it'))
})

test('takes an answer that lies there unread, because this process was busy', async () => {
  // Behind the sockets in this turn of the event loop: in the next one timers come first.
  await new Promise((resolve) => setImmediate(resolve))
  const asking = new Breaker(systemClock, 10).ask(() => new Promise((resolve) => setImmediate(() => resolve('yes'))))
  const until = performance.now() + 30
  while (performance.now() < until);
  expect(await asking).toEqual({ answer: 'yes' })
})

test('takes an error for no answer, also one that is thrown at once', async () => {
  const { fail, question } = setup()
  expect(await fail()).toBeUndefined()
  expect(
    await question(() => {
      throw new Error('at once')
    }),
  ).toBeUndefined()
})

test('asks nothing for a second after five failures in a row; then one tries for all', async () => {
  const { clock, fail, ok, asked } = setup()
  for (let failure = 0; failure < 5; failure += 1) {
    await fail()
    clock.advance(1)
  }
  expect(await ok()).toBeUndefined()
  expect(asked()).toBe(5)
  clock.advance(1_000)
  const [tried, ...others] = await Promise.all([fail(), ok(), ok()])
  expect([tried, ...others, asked()]).toEqual([undefined, undefined, undefined, 6])
  clock.advance(999)
  await ok()
  expect(asked()).toBe(6)
  clock.advance(1)
  expect(await ok()).toEqual({ answer: 'yes' })
  expect(await ok()).toEqual({ answer: 'yes' })
})

test('counts failures that came together as one', async () => {
  const { clock, fail, ok } = setup()
  for (let wave = 0; wave < 4; wave += 1) {
    await Promise.all(Array.from({ length: 100 }, fail))
    clock.advance(1)
  }
  expect(await ok()).toEqual({ answer: 'yes' })
})

test('forgets failures when an answer comes', async () => {
  const { clock, fail, ok } = setup()
  for (let round = 0; round < 5; round += 1) {
    for (let failure = 0; failure < 4; failure += 1) {
      clock.advance(1)
      await fail()
    }
    expect(await ok()).toEqual({ answer: 'yes' })
  }
})
