import { afterEach, describe, expect, test, vi } from 'vitest'
import { type OnceEvent, reporter } from './events.js'

const ref = { tenant: 'tenant', scope: 'scope', key: 'key' }

afterEach(() => {
  vi.restoreAllMocks()
})

describe('reporter', () => {
  test('tells the listener what happened to which key, and nothing else of the claim', () => {
    const events: OnceEvent[] = []
    const report = reporter((event) => events.push(event))
    report({ ...ref, ...{ owner: 'secret token', request: Uint8Array.of(1) } }, { type: 'finished', status: 201 })
    expect(events).toEqual([{ ...ref, type: 'finished', status: 201 }])
  })

  test('is silent without a listener', () => {
    expect(() => reporter(undefined)(ref, { type: 'lease-lost' })).not.toThrow()
  })

  test('turns what a listener throws into a warning', () => {
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const report = reporter(() => {
      throw new Error('metrics are down')
    })
    expect(() => report(ref, { type: 'lease-lost' })).not.toThrow()
    expect(warn).toHaveBeenCalledWith(expect.stringContaining('metrics are down'), { code: 'ONCEKEY_LISTENER' })
  })

  test('turns what an async listener throws into a warning too, rather than into the end of the process', async () => {
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const unhandled = await unhandledDuring(() => {
      const listener = async () => {
        throw new Error('metrics are down')
      }
      reporter(listener)(ref, { type: 'lease-lost' })
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
