import { afterEach, describe, expect, test, vi } from 'vitest'
import { systemClock } from '../core/clock.js'
import { type ErrorCode, OncekeyError } from '../core/errors.js'
import { manualClock } from '../testing/manual-clock.js'
import { patiently } from './patience.js'

const trouble = (code: ErrorCode) => new OncekeyError(code, 'trouble')

/** Lets everything happen that does not wait for the clock. */
const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

function setup({ fraction = 0.5 } = {}) {
  const clock = manualClock(0)
  const open = new Set<() => void>()
  const delays: number[] = []
  const watched = {
    ...clock,
    schedule(task: () => void, delayMs: number) {
      delays.push(delayMs)
      const cancel = clock.schedule(() => {
        open.delete(cancel)
        task()
      }, delayMs)
      open.add(cancel)
      return () => {
        open.delete(cancel)
        cancel()
      }
    },
  }
  const random = { uuid: () => 'uuid', fraction: () => fraction }
  const parts = { clock: watched, random }
  const pass = async (ms: number, step = 25) => {
    for (let left = ms; left > 0; left -= step) {
      clock.advance(Math.min(step, left))
      await turn()
    }
  }
  return { clock, parts, open, delays, pass }
}

/** What became of a promise so far. */
function watch<T>(promise: Promise<T>) {
  const fate: { value?: T; error?: unknown } = {}
  promise.then(
    (value) => {
      fate.value = value
    },
    (error: unknown) => {
      fate.error = error
    },
  )
  return fate
}

afterEach(() => {
  vi.restoreAllMocks()
})

describe('patiently', () => {
  test('gives the first answer and leaves no timer behind', async () => {
    const { parts, open } = setup()
    await expect(patiently(async () => 'answer', { until: 5_000, tries: 3 }, parts)).resolves.toBe('answer')
    expect(open.size).toBe(0)
  })

  test.each(['store_unavailable', 'store_timeout', 'store_read_only', 'store_full'] as const)('tries again after %s', async (code) => {
    const { parts, pass, open } = setup()
    const call = vi.fn(async () => 'answer').mockRejectedValueOnce(trouble(code))
    const fate = watch(patiently(call, { until: 5_000, tries: 3 }, parts))
    await turn()
    expect(call).toHaveBeenCalledTimes(1)
    await pass(1_000)
    expect(fate).toEqual({ value: 'answer' })
    expect(call).toHaveBeenCalledTimes(2)
    expect(open.size).toBe(0)
  })

  test.each<[string, unknown]>([
    ['a failure of its own', trouble('store_failed')],
    ['a refusal', trouble('store_forbidden')],
    ['a lost lease', trouble('lease_lost')],
    ['an error that is not ours', new Error('store_unavailable')],
    ['a text', 'store_unavailable'],
    ['nothing', undefined],
  ])('does not try again after %s', async (_, error) => {
    const { parts } = setup()
    const call = vi.fn(() => Promise.reject(error))
    await expect(patiently(call, { until: 5_000, tries: 3 }, parts)).rejects.toBe(error)
    expect(call).toHaveBeenCalledTimes(1)
  })

  test('treats a call that throws at once like one that fails', async () => {
    const { parts } = setup()
    const error = new Error('no promise at all')
    const call = () => {
      throw error
    }
    await expect(patiently(call, { until: 5_000, tries: 3 }, parts)).rejects.toBe(error)
  })

  test('gives up after its tries, with the last error', async () => {
    const { parts, pass } = setup()
    const errors = [1, 2, 3, 4].map(() => trouble('store_unavailable'))
    let calls = 0
    const fate = watch(patiently(() => Promise.reject(errors[calls++]), { until: 60_000, tries: 3 }, parts))
    await pass(5_000)
    expect(calls).toBe(3)
    expect(fate.error).toBe(errors[2])
  })

  test('gives up, with the error itself, when the next try would come after the deadline', async () => {
    const { parts, pass } = setup()
    const error = trouble('store_unavailable')
    const call = vi.fn(() => Promise.reject(error))
    const fate = watch(patiently(call, { until: 300, tries: Number.POSITIVE_INFINITY }, parts))
    await pass(1_000)
    expect(fate.error).toBe(error)
    expect(call.mock.calls.length).toBeGreaterThan(2)
  })

  test('waits longer each time, but never more than a second, and for a random part of that', async () => {
    const half = setup({ fraction: 0.5 })
    watch(patiently(() => Promise.reject(trouble('store_unavailable')), { until: 1e6, tries: 9 }, half.parts))
    await half.pass(10_000)
    const waits = half.delays.filter((delayMs) => delayMs <= 1_000)
    expect(waits).toHaveLength(8)
    expect(waits.slice(1, 4)).toEqual(waits.slice(0, 3).map((delayMs) => delayMs * 2))
    expect(waits.slice(-2)).toEqual([500, 500])
    expect(waits[0]).toBeLessThanOrEqual(25)

    const none = setup({ fraction: 0 })
    watch(patiently(() => Promise.reject(trouble('store_unavailable')), { until: 1e6, tries: 2 }, none.parts))
    await turn()
    expect(none.delays.at(-1)).toBe(0)
  })

  test('stops waiting at the deadline', async () => {
    const { parts, pass } = setup()
    const fate = watch(patiently(() => new Promise(() => {}), { until: 5_000, tries: 3 }, parts))
    await pass(4_999, 4_999)
    expect(fate).toEqual({})
    await pass(1)
    expect(fate.error).toMatchObject({ code: 'store_timeout' })
  })

  test('tells each try how long it may take: no longer than one try, and no longer than is left', async () => {
    const { clock, parts, pass } = setup()
    const limits: number[] = []
    const call = ({ timeoutMs }: { timeoutMs: number }) => {
      limits.push(timeoutMs)
      return new Promise<never>((_, reject) => void clock.schedule(() => reject(trouble('store_timeout')), timeoutMs))
    }
    const fate = watch(patiently(call, { until: 2_500, tries: Number.POSITIVE_INFINITY, tryMs: 1_000 }, parts))
    await pass(2_499, 1)
    expect(fate).toEqual({})
    expect(limits.slice(0, 2)).toEqual([1_000, 1_000])
    expect(limits).toHaveLength(3)
    // Two tries and the pauses after them are over.
    expect(limits[2]).toBeGreaterThan(0)
    expect(limits[2]).toBeLessThan(500)
    await pass(1)
    expect(fate.error).toMatchObject({ code: 'store_timeout' })
    expect(limits).toHaveLength(3)
  })

  test('counts the deadline over all tries', async () => {
    const { parts, pass } = setup()
    const call = vi.fn(() => new Promise(() => {})).mockRejectedValueOnce(trouble('store_unavailable'))
    const fate = watch(patiently(call, { until: 5_000, tries: 3 }, parts))
    await pass(4_999, 49)
    expect(fate).toEqual({})
    await pass(1)
    expect(fate.error).toMatchObject({ code: 'store_timeout' })
    expect(call).toHaveBeenCalledTimes(2)
  })

  test('ignores what comes too late', async () => {
    for (const end of ['answer', 'error'] as const) {
      const { parts, pass } = setup()
      let settle: { resolve(answer: string): void; reject(error: unknown): void } | undefined
      const call = () => new Promise<string>((resolve, reject) => (settle = { resolve, reject }))
      const fate = watch(patiently(call, { until: 1_000, tries: 3 }, parts))
      await pass(1_000)
      if (end === 'answer') settle?.resolve('late answer')
      else settle?.reject(new Error('late'))
      await turn()
      expect(fate).toEqual({ error: expect.objectContaining({ code: 'store_timeout' }) })
    }
  })

  test('keeps the process alive until the next try', async () => {
    const timers = vi.spyOn(globalThis, 'setTimeout')
    const call = vi.fn(async () => 'answer').mockRejectedValueOnce(trouble('store_unavailable'))
    const heldOpen: boolean[] = []
    const clock: typeof systemClock = {
      ...systemClock,
      schedule(task, delayMs) {
        const cancel = systemClock.schedule(task, delayMs)
        const timer = timers.mock.results.at(-1)?.value as NodeJS.Timeout | undefined
        heldOpen.push(timer?.hasRef() ?? false)
        return cancel
      },
    }
    const random = { uuid: () => 'uuid', fraction: () => 0.01 }
    await patiently(call, { until: systemClock.monotonic() + 60_000, tries: 2 }, { clock, random })
    // The deadline of the first try, the wait for the second, the deadline of the second.
    expect(heldOpen[1]).toBe(true)
  })
})
