import { afterEach, describe, expect, test, vi } from 'vitest'
import { systemClock, systemRandom } from './clock.js'

const day = 86_400_000

afterEach(() => {
  vi.useRealTimers()
  vi.restoreAllMocks()
})

describe('systemClock', () => {
  test('runs a task once, after its delay', () => {
    vi.useFakeTimers()
    const task = vi.fn()
    systemClock.schedule(task, 1_000)
    vi.advanceTimersByTime(999)
    expect(task).not.toHaveBeenCalled()
    vi.advanceTimersByTime(5_000)
    expect(task).toHaveBeenCalledTimes(1)
  })

  test('does not run a task that was called off', () => {
    vi.useFakeTimers()
    const task = vi.fn()
    systemClock.schedule(task, 1_000)()
    vi.advanceTimersByTime(5_000)
    expect(task).not.toHaveBeenCalled()
  })

  test('does not run a task at once that is further away than a timer of Node can reach', () => {
    vi.useFakeTimers()
    const task = vi.fn()
    systemClock.schedule(task, 30 * day)
    vi.advanceTimersByTime(day)
    expect(task).not.toHaveBeenCalled()
  })

  test('tells the wall clock, and one that only grows', () => {
    vi.useFakeTimers({ now: 1_000_000 })
    const before = systemClock.monotonic()
    vi.setSystemTime(500_000)
    expect(systemClock.now()).toBe(500_000)
    expect(systemClock.monotonic()).toBeGreaterThanOrEqual(before)
    vi.advanceTimersByTime(250)
    expect(systemClock.monotonic()).toBe(before + 250)
  })
})

describe('systemRandom', () => {
  test('makes another id each time, and fractions below one', () => {
    expect(systemRandom.uuid()).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
    expect(systemRandom.uuid()).not.toBe(systemRandom.uuid())
    const fraction = systemRandom.fraction()
    expect(fraction >= 0 && fraction < 1).toBe(true)
  })
})
