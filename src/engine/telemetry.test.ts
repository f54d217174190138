import { afterEach, describe, expect, test, vi } from 'vitest'
import { reply } from '../core/answer.js'
import { createOnce } from '../create-once.js'
import { memoryStore } from '../stores/memory/index.js'
import { manualClock } from '../testing/manual-clock.js'
import { guardedApart, guardedSpan, type Telemetry } from './telemetry.js'

const request = { tenant: 't', scope: 's', key: 'k', fingerprint: false, afterFailure: 'rerun' } as const
const quiet: Telemetry = { onEvent() {}, span: (_name, _attributes, work) => work() }
const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

afterEach(() => {
  vi.restoreAllMocks()
})

function setup(changes: Partial<Telemetry>) {
  const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
  const telemetry = { ...quiet, ...changes }
  return { warn, telemetry, span: guardedSpan(telemetry), work: vi.fn(async () => 'done') }
}

describe('a span', () => {
  test('is open while the work goes on, and gives what the work gives', async () => {
    const seen: unknown[] = []
    const { span, warn } = setup({
      async span(name, attributes, work) {
        seen.push(name, attributes)
        const value = await work()
        seen.push('over')
        return value
      },
    })
    const value = await span('oncekey.run', { a: 1 }, async () => {
      seen.push('working')
      return 'done'
    })
    expect([value, ...seen]).toEqual(['done', 'oncekey.run', { a: 1 }, 'working', 'over'])
    expect(warn).not.toHaveBeenCalled()
  })

  const failing: [string, Telemetry['span']][] = [
    [
      'throws before the work',
      () => {
        throw new Error('no tracer')
      },
    ],
    [
      'throws after the work has begun',
      (_name, _attributes, work) => {
        void work()
        throw new Error('no tracer')
      },
    ],
    [
      'fails after the work',
      async (_name, _attributes, work) => {
        await work()
        throw new Error('no tracer')
      },
    ],
  ]
  test.each(failing)('that %s is a warning, and the work is done once', async (_, broken) => {
    const { span, work, warn } = setup({ span: broken })
    await expect(span('oncekey.run', {}, work)).resolves.toBe('done')
    await turn()
    expect(work).toHaveBeenCalledTimes(1)
    expect(warn.mock.calls).toEqual([['telemetry threw: Error: no tracer', { code: 'ONCEKEY_LISTENER' }]])
  })

  const unhelpful: [string, Telemetry['span']][] = [
    ['never ends', () => new Promise(() => {})],
    ['never calls the work', async () => 'something else' as never],
    ['returns something else', async (_name, _attributes, work) => work().then(() => 'something else' as never)],
    ['calls the work twice', async (_name, _attributes, work) => work().then(() => work())],
  ]
  test.each(unhelpful)('that %s changes nothing', async (_, broken) => {
    const { span, work } = setup({ span: broken })
    await expect(span('oncekey.run', {}, work)).resolves.toBe('done')
    expect(work).toHaveBeenCalledTimes(1)
  })

  test('passes on what the work throws, which is no fault of the telemetry', async () => {
    const { span, warn } = setup({})
    const error = new Error('declined')
    await expect(span('oncekey.run', {}, () => Promise.reject(error))).rejects.toBe(error)
    await turn()
    expect(warn).not.toHaveBeenCalled()
  })

  test('that swallows what the work throws does not swallow it', async () => {
    const { span } = setup({ span: async (_name, _attributes, work) => work().catch(() => undefined as never) })
    await expect(span('oncekey.run', {}, () => Promise.reject(new Error('declined')))).rejects.toThrow('declined')
  })
})

describe('what is done apart', () => {
  const failing: [string, Telemetry['apart'], number][] = [
    ['without an apart()', undefined, 0],
    ['by one that does nothing', () => undefined as never, 0],
    [
      'by one that does it twice',
      (work) => {
        work()
        return work()
      },
      0,
    ],
    [
      'by one that throws',
      () => {
        throw new Error('no context')
      },
      1,
    ],
  ]
  test.each(failing)('%s is done once', (_, apart, warnings) => {
    const { telemetry, warn } = setup({})
    const work = vi.fn()
    guardedApart({ ...telemetry, ...(apart ? { apart } : {}) })(work)
    expect(work).toHaveBeenCalledTimes(1)
    expect(warn).toHaveBeenCalledTimes(warnings)
  })
})

describe('telemetry', () => {
  test('that throws everywhere changes nothing', async () => {
    const fails = () => {
      throw new Error('telemetry is down')
    }
    const { warn } = setup({})
    const once = createOnce({ store: memoryStore(), telemetry: { onEvent: fails, span: fails, apart: fails } })
    expect(await once.execute(request, () => reply(201))).toMatchObject({ kind: 'executed', stored: true })
    expect((await once.execute(request, () => reply(500))).kind).toBe('replayed')
    // Executing, the plan of the heartbeat, the span, finished; replayed.
    expect(warn).toHaveBeenCalledTimes(5)
  })

  test('lets heartbeats go on if it throws', async () => {
    setup({})
    const clock = manualClock()
    const store = memoryStore({ clock })
    const keyHeartbeat = vi.fn(store.keyHeartbeat)
    const telemetry: Telemetry = {
      ...quiet,
      apart() {
        throw new Error('no context')
      },
    }
    const once = createOnce({ store: { ...store, keyHeartbeat }, clock, telemetry, lease: '15s' })
    await once.execute(request, async () => {
      for (let beats = 0; beats < 4; beats += 1) {
        clock.advance(5_000)
        await turn()
      }
      return reply(201)
    })
    expect(keyHeartbeat).toHaveBeenCalledTimes(4)
  })

  test('that is something else is refused at start', () => {
    // @ts-expect-error no span()
    const incomplete = () => createOnce({ store: memoryStore(), telemetry: { onEvent() {} } })
    expect(incomplete).toThrowError(expect.objectContaining({ code: 'option_invalid' }))
  })

  test('wraps nothing where there is none', () => {
    expect(createOnce({ store: memoryStore() }).internals.parts.span).toBeUndefined()
  })
})
