import { Console } from 'node:console'
import { PassThrough } from 'node:stream'
import { pino } from 'pino'
import { afterEach, describe, expect, expectTypeOf, test, vi } from 'vitest'
import { reply } from '../core/answer.js'
import { createOnce } from '../create-once.js'
import { memoryStore } from '../stores/memory/index.js'
import { eventLog, type Logger, logTo } from './event-log.js'
import type { OnceEvent } from './events.js'

const ref = { tenant: 'acme', scope: 'orders.create', key: 'order-1' }
const request = { ...ref, fingerprint: { value: { card: 'secret input' } }, afterFailure: 'rerun' } as const

afterEach(() => {
  vi.restoreAllMocks()
})

/** What was written to a stream so far. */
function capture() {
  const stream = new PassThrough()
  // By pieces: from Node 26 on read() gives one at a time.
  const text = () => {
    let all = ''
    for (let piece = stream.read(); piece !== null; piece = stream.read()) all += piece
    return all
  }
  return { stream, text }
}

describe('a logger', () => {
  test('is pino as it is', async () => {
    const { stream, text } = capture()
    const logger = pino({ level: 'debug', base: null, timestamp: false }, stream)
    const once = createOnce({ store: memoryStore(), logger })
    await expect(
      once.execute(request, () => {
        throw new Error('the provider is away')
      }),
    ).rejects.toThrow()
    await once.execute(request, () => reply(201, { token: 'secret answer' }))
    await once.execute(request, () => reply(500))

    const written = text()
    const lines = written.trim().split('\n')
    const parsed = lines.map((line) => JSON.parse(line))
    expect(parsed.map(({ level, type }) => [level, type])).toEqual([
      [20, 'executing'],
      [40, 'released'],
      [40, 'executing'],
      [20, 'finished'],
      [20, 'replayed'],
    ])
    for (const line of parsed) expect(line).toMatchObject(ref)
    expect(parsed[1]).toMatchObject({ err: { type: 'Error', message: 'the provider is away', stack: expect.any(String) } })
    expect(parsed[1]).not.toHaveProperty('error')
    expect(parsed[2]).toMatchObject({ attempt: 2, takenOver: true, msg: eventLog['executing-again'][1] })
    expect(written).not.toContain('secret')
  })

  test('is console as it is', async () => {
    const out = capture()
    const err = capture()
    const once = createOnce({ store: memoryStore(), logger: new Console(out.stream, err.stream) })
    await once.execute(request, () => reply(201))
    await once.execute({ ...request, fingerprint: { value: 'something else' } }, () => reply(500))
    expect(out.text()).toContain(eventLog.finished[1])
    const warning = err.text()
    expect(warning).toContain(eventLog.mismatched[1])
    expect(warning).toContain("key: 'order-1'")
  })

  test('need not have debug', async () => {
    const info = vi.fn()
    const once = createOnce({ store: memoryStore(), logger: { info, warn: info, error: info } })
    expect((await once.execute(request, () => reply(201))).kind).toBe('executed')
    expect(info).not.toHaveBeenCalled()
  })

  test('that throws changes nothing', async () => {
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const fails = () => {
      throw new Error('the disk is full')
    }
    const once = createOnce({ store: memoryStore(), logger: { debug: fails, info: fails, warn: fails, error: fails } })
    expect(await once.execute(request, () => reply(201))).toMatchObject({ kind: 'executed', stored: true })
    expect((await once.execute(request, () => reply(500))).kind).toBe('replayed')
    expect(warn.mock.calls.map(([text]) => text)).toEqual(Array(3).fill('logger threw: Error: the disk is full'))
  })

  test('without its levels is refused at start', () => {
    // @ts-expect-error it has no error()
    const incomplete = () => createOnce({ store: memoryStore(), logger: { info() {}, warn() {} } })
    expect(incomplete).toThrowError(expect.objectContaining({ code: 'option_invalid' }))
  })

  test('fits the types of pino and console', () => {
    expectTypeOf(pino()).toExtend<Logger>()
    expectTypeOf(console).toExtend<Logger>()
  })
})

describe('the lines', () => {
  test.each(Object.entries(eventLog))('%s is a sentence', (_, [level, message]) => {
    expect(['debug', 'info', 'warn', 'error']).toContain(level)
    expect(message).toMatch(/^[A-Z].*[.?]$/)
  })

  test.each<[OnceEvent, keyof Logger]>([
    [{ ...ref, type: 'replayed', state: 'complete' }, 'debug'],
    [{ ...ref, type: 'resolved', as: 'failed', by: 'ana' }, 'info'],
    [{ ...ref, type: 'swept', fence: 2, to: 'pending', reason: 'gone' }, 'warn'],
    [{ ...ref, type: 'parked', error: 'unknown' }, 'error'],
    [{ ...ref, type: 'answer-not-stored', error: 'away' }, 'error'],
    [{ ...ref, type: 'timed-out' }, 'error'],
    [{ type: 'worker-ran', worker: 'reaper', counts: { reaped: 1, parked: 0 }, durationMs: 1 }, 'debug'],
    [{ type: 'worker-failed', worker: 'reaper', error: 'away' }, 'error'],
  ])('of %o goes to %s', (event, level) => {
    const logger = { debug: vi.fn(), info: vi.fn(), warn: vi.fn(), error: vi.fn() }
    logTo(logger)(event)
    const { error, ...fields } = event as OnceEvent & { error?: unknown }
    const calls = Object.entries(logger).flatMap(([name, { mock }]) => mock.calls.map((call) => [name, ...call]))
    expect(calls).toEqual([[level, error === undefined ? fields : { ...fields, err: error }, eventLog[event.type][1]]])
  })

  test('a turn of a worker that had nothing to do is no line', () => {
    const logger = { debug: vi.fn(), info: vi.fn(), warn: vi.fn(), error: vi.fn() }
    logTo(logger)({ type: 'worker-ran', worker: 'reaper', counts: { reaped: 0, parked: 0 }, durationMs: 1 })
    expect(logger.debug).not.toHaveBeenCalled()
  })
})
