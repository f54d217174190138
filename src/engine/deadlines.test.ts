import { expect, test } from 'vitest'
import { manualClock } from '../testing/manual-clock.js'
import { Deadlines, type Waiting } from './deadlines.js'

function setup() {
  const clock = manualClock(0)
  const given: string[] = []
  /** Timers that are set now. */
  let open = 0
  let set = 0
  const schedule: typeof clock.schedule = (task, delayMs) => {
    let isOpen = true
    const close = () => {
      if (isOpen) open -= 1
      isOpen = false
    }
    open += 1
    set += 1
    const cancel = clock.schedule(() => {
      close()
      task()
    }, delayMs)
    return () => {
      close()
      cancel()
    }
  }
  const deadlines = new Deadlines({ ...clock, schedule })
  const wait = (name: string, until: number, then = () => {}) => {
    const giveUp = () => {
      given.push(`${name} at ${clock.monotonic()}`)
      then()
    }
    const waiting: Waiting = { until, giveUp, previous: undefined, next: undefined }
    deadlines.add(waiting)
    return () => deadlines.remove(waiting)
  }
  return { clock, wait, given, open: () => open, set: () => set }
}

test('gives up each call at its own deadline, whatever the order in which they came', () => {
  const { clock, wait, given, open } = setup()
  wait('late', 900)
  wait('early', 100)
  wait('between', 500)
  wait('early too', 100)
  expect(open()).toBe(1)
  clock.advance(99)
  expect(given).toEqual([])
  clock.advance(1_000)
  expect(given).toEqual(['early at 100', 'early too at 100', 'between at 500', 'late at 900'])
  expect(open()).toBe(0)
})

test('has one timer for calls that come and go, and none when nobody waits', () => {
  const { clock, wait, given, open, set } = setup()
  let before = wait('0', 5_000)
  for (let call = 1; call <= 100; call += 1) {
    clock.advance(10)
    const done = wait(String(call), 5_000 + call * 10)
    before()
    before = done
  }
  expect([open(), set()]).toEqual([1, 1])
  before()
  expect(open()).toBe(0)
  clock.advance(10_000)
  expect(given).toEqual([])
})

test('keeps the deadline of a call that came while the timer was set for one that has ended', () => {
  const { clock, wait, given } = setup()
  const done = wait('first', 100)
  wait('second', 150)
  done()
  clock.advance(149)
  expect(given).toEqual([])
  clock.advance(1)
  expect(given).toEqual(['second at 150'])
})

test('gives up a call at once that comes after its deadline', () => {
  const { clock, wait, given } = setup()
  clock.advance(1_000)
  wait('too late', 500)
  clock.advance(0)
  expect(given).toEqual(['too late at 1000'])
})

test('lets any of them end in any order', () => {
  const { clock, wait, given, open } = setup()
  const done = ['a', 'b', 'c', 'd', 'e'].map((name, index) => wait(name, 100 + index))
  for (const index of [2, 0, 4, 4, 2]) done[index]?.()
  clock.advance(200)
  expect(given).toEqual(['b at 101', 'd at 103'])
  for (const end of done) end()
  expect(open()).toBe(0)
})

test('keeps the deadlines of calls that are made because another one was given up, and of those that end then', () => {
  const { clock, wait, given, open } = setup()
  const ends: (() => void)[] = []
  wait('first', 100, () => {
    wait('second', 150, () => wait('third', 120))
    for (const end of ends) end()
  })
  ends.push(wait('ended', 100), wait('ended too', 300))
  clock.advance(1_000)
  expect(given).toEqual(['first at 100', 'second at 150', 'third at 150'])
  expect(open()).toBe(0)
})
