import { afterEach, describe, expect, test, vi } from 'vitest'
import { type OnceEvent, reporter } from './events.js'

const ref = { tenant: 'tenant', scope: 'scope', key: 'key' }

afterEach(() => {
  vi.restoreAllMocks()
})

describe('reporter', () => {
  test('tells the listener what happened to which key, and nothing else of the claim', () => {
    const events: OnceEvent[] = []
    const { report } = reporter({ onEvent: (event) => events.push(event) })
    report({ ...ref, ...{ owner: 'secret token', request: Uint8Array.of(1) } }, { type: 'replayed', state: 'complete' })
    expect(events).toEqual([{ ...ref, type: 'replayed', state: 'complete' }])
  })

  test('tells of background work, which has no key', () => {
    const events: OnceEvent[] = []
    const { reportWorker } = reporter({ onEvent: (event) => events.push(event) })
    const event = { type: 'worker-ran', worker: 'reaper', counts: { reaped: 3 }, durationMs: 5 } as const
    reportWorker(event)
    expect(events).toEqual([event])
  })

  test('is silent without a listener, and makes nothing for it', () => {
    const { report, reportWorker } = reporter({ onEvent: undefined, logger: undefined })
    const untouchable = new Proxy(ref, {
      get: () => {
        throw new Error('looked at')
      },
    })
    expect(() => report(untouchable, { type: 'lease-lost' })).not.toThrow()
    expect(() => reportWorker({ type: 'worker-failed', worker: 'reaper', error: null })).not.toThrow()
  })

  test('turns what a listener throws into a warning that names it, and tells the others all the same', () => {
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const heard = vi.fn()
    const { report, reportWorker } = reporter({
      logger: () => {
        throw new Error('the disk is full')
      },
      onEvent: heard,
    })
    expect(() => report(ref, { type: 'lease-lost' })).not.toThrow()
    expect(() => reportWorker({ type: 'worker-failed', worker: 'reaper', error: null })).not.toThrow()
    expect(warn.mock.calls).toEqual(Array(2).fill(['logger threw: Error: the disk is full', { code: 'ONCEKEY_LISTENER' }]))
    expect(heard).toHaveBeenCalledTimes(2)
  })

  test('turns what an async listener throws into a warning too, rather than into the end of the process', async () => {
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const unhandled = await unhandledDuring(() => {
      const onEvent = async () => {
        throw new Error('metrics are down')
      }
      reporter({ onEvent }).report(ref, { type: 'lease-lost' })
    })
    expect(unhandled).toEqual([])
    expect(warn).toHaveBeenCalledWith(expect.stringContaining('metrics are down'), { code: 'ONCEKEY_LISTENER' })
  })
})

/** The rejections that nobody took care of, in the place of the test runner, which would fail the whole run for them. */
async function unhandledDuring(act: () => void): Promise<unknown[]> {
  const others = process.listeners('unhandledRejection')
  const unhandled: unknown[] = []
  process.removeAllListeners('unhandledRejection')
  process.on('unhandledRejection', (error) => unhandled.push(error))
  act()
  await new Promise((resolve) => setImmediate(resolve))
  process.removeAllListeners('unhandledRejection')
  for (const listener of others) process.on('unhandledRejection', listener)
  return unhandled
}
