import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { alone } from './alone.js'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => {
  vi.useRealTimers()
  vi.unstubAllGlobals()
})

/** Web Locks that grant what is asked for when the test says so, and end the wait when they are told to. */
function setup() {
  let grant = () => {}
  const request = (_name: string, { signal }: { signal: AbortSignal }, task: () => Promise<unknown>) =>
    new Promise((resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason))
      grant = () => {
        if (!signal.aborted) resolve(task())
      }
    })
  vi.stubGlobal('navigator', { locks: { request } })
  return { grant: () => grant() }
}

const sent = async () => 'sent'

test('a new request waits for its lock however long the page is busy', async () => {
  const locks = setup()
  const sending = alone('new', sent, { isNew: true })
  await vi.advanceTimersByTimeAsync(60_000)
  locks.grant()
  expect(await sending).toBe('sent')
})

test('a kept request is left alone after a second, while another tab has its lock', async () => {
  setup()
  let outcome: unknown = 'waiting'
  void alone('kept', sent).then((given) => {
    outcome = given
  })
  await vi.advanceTimersByTimeAsync(999)
  expect(outcome).toBe('waiting')
  await vi.advanceTimersByTimeAsync(1)
  expect(outcome).toBe(undefined)
})

test('a frame that may not have locks sends all the same, and what the request throws is thrown once', async () => {
  vi.stubGlobal('navigator', { locks: { request: () => Promise.reject(new Error('SecurityError')) } })
  expect(await alone('sandboxed', sent)).toBe('sent')
  const { grant } = setup()
  let runs = 0
  const failing = alone('failing', async () => {
    runs += 1
    throw new Error('offline')
  })
  grant()
  await expect(failing).rejects.toThrow('offline')
  expect(runs).toBe(1)
})
