import { describe, expect, test } from 'vitest'
import { type Answer, bodyOf, reply } from '../core/answer.js'
import type { AfterFailure } from '../core/policy.js'
import { resolveRetention } from '../core/retention.js'
import { outcomeUnknown, workFailed } from '../core/system-answers.js'
import { createOnce } from '../create-once.js'
import { memoryStore } from '../stores/memory/index.js'
import { manualClock } from '../testing/manual-clock.js'
import type { OnceEvent } from './events.js'
import type { ExecuteOptions } from './execute.js'
import type { Run } from './held.js'

const second = 1_000
const ref = { tenant: 'tenant', scope: 'orders.create', key: 'key-1' }
const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

function setup(afterFailure: AfterFailure = 'rerun') {
  const clock = manualClock()
  const store = memoryStore({ clock })
  const events: OnceEvent[] = []
  const once = createOnce({ store, clock, onEvent: (event) => events.push(event) })
  const request: ExecuteOptions = { ...ref, fingerprint: { value: 1 }, afterFailure }
  const pass = async (seconds: number) => {
    for (let passed = 0; passed < seconds; passed += 1) {
      clock.advance(second)
      await turn()
    }
  }
  /** A holder that crashes: it claims the key and is never heard of again. */
  const crash = async () => {
    const owner = crypto.randomUUID()
    const retention = resolveRetention('24h', '1h')
    await store.keyClaim({ ...ref, owner, fingerprint: null, leaseMs: 15 * second, retention, afterFailure, request: null, worker: false })
    clock.advance(15 * second)
  }
  const types = () => events.map(({ type }) => type)
  return { store, once, events, types, request, pass, crash }
}

const neverRun = () => {
  throw new Error('must not run')
}
const attemptOf = ({ attempt, fence }: Run) => reply(200, { attempt, fence })

/** Ways to fail, each with what comes out of execute. */
const boom = new Error('boom')
const failures: [string, () => unknown, unknown][] = [
  ['throws', () => Promise.reject(boom), boom],
  ['throws at once', () => throwing(boom), boom],
  ['throws nothing at all', () => throwing(undefined), undefined],
  ['returns nothing', () => undefined, expect.objectContaining({ code: 'answer_invalid' })],
  ['returns a body', () => ({ id: 'order-1' }), expect.objectContaining({ code: 'answer_invalid' })],
  ['returns a bad status', () => ({ ...reply(200), status: 99 }), expect.objectContaining({ code: 'answer_invalid' })],
  ['returns a bad header', () => ({ ...reply(200), headers: [['x', 'a\n']] }), expect.objectContaining({ code: 'answer_invalid' })],
]

function throwing(error: unknown): never {
  throw error
}

/** What came out: the error that was thrown, in a box, because it may be undefined. */
const errorOf = (promise: Promise<unknown>) =>
  promise.then(
    () => 'no error',
    (error: unknown) => ({ error }),
  )

describe.each(failures)('work that %s', (_, fail, error) => {
  const work = fail as () => Answer

  test('runs again under rerun, and knows that it does', async () => {
    const { once, request, store, events } = setup('rerun')
    expect(await errorOf(once.execute(request, work))).toEqual({ error })
    expect(await store.keyRead(ref)).toMatchObject({ state: 'pending', reason: expect.any(String) })
    expect(events.at(-1)).toEqual({ ...ref, type: 'released', error, durationMs: 0 })
    const outcome = await once.execute(request, attemptOf)
    expect(outcome.kind === 'executed' && bodyOf(outcome.answer)).toEqual({ attempt: 2, fence: 2 })
  })

  test('is replayed as a failure under store', async () => {
    const { once, request, events } = setup('store')
    expect(await errorOf(once.execute(request, work))).toEqual({ error })
    expect(events.at(-1)).toEqual({ ...ref, type: 'failed', error, durationMs: 0 })
    expect(await once.execute(request, neverRun)).toMatchObject({ kind: 'replayed', state: 'failed', answer: workFailed })
  })

  test('stops for a person under park', async () => {
    const { once, request, events } = setup('park')
    expect(await errorOf(once.execute(request, work))).toEqual({ error })
    expect(events.at(-1)).toEqual({ ...ref, type: 'parked', error, durationMs: 0 })
    expect(await once.execute(request, neverRun)).toEqual({ kind: 'parked', answer: outcomeUnknown })
    expect(events.at(-1)).toEqual({ ...ref, type: 'met-parked' })
  })
})

describe('a holder that crashes', () => {
  test('is replaced under rerun', async () => {
    const { once, request, crash } = setup('rerun')
    await crash()
    const outcome = await once.execute(request, attemptOf)
    expect(outcome.kind === 'executed' && bodyOf(outcome.answer)).toEqual({ attempt: 2, fence: 2 })
  })

  test('leaves a failure under store, and a parked key under park', async () => {
    const stored = setup('store')
    await stored.crash()
    expect(await stored.once.execute(stored.request, neverRun)).toMatchObject({ kind: 'replayed', state: 'failed', answer: outcomeUnknown })
    const parked = setup('park')
    await parked.crash()
    expect(await parked.once.execute(parked.request, neverRun)).toEqual({ kind: 'parked', answer: outcomeUnknown })
  })

  test('is judged by what it said itself, not by who comes next', async () => {
    const { once, request, crash } = setup('park')
    await crash()
    expect(await once.execute({ ...request, afterFailure: 'rerun' }, neverRun)).toMatchObject({ kind: 'parked' })
  })
})

describe('the reason that is kept', () => {
  const reasonAfter = async (error: unknown) => {
    const { once, request, store } = setup()
    await errorOf(once.execute(request, () => throwing(error)))
    return (await store.keyRead(ref))?.reason
  }

  test('is the name and message of the error', async () => {
    expect(await reasonAfter(new TypeError('no such column'))).toBe('TypeError: no such column')
  })

  test('says nothing of what is not an Error', async () => {
    expect(await reasonAfter('card 4242 4242 4242 4242')).toBe('the work threw something that is not an Error')
  })

  test('has at most 500 characters, all of which any store can keep', async () => {
    expect(await reasonAfter(new Error('a\u0000b\ud800c😀'))).toBe('Error: a\ufffdb\ufffdc😀')
    expect(await reasonAfter(new Error(`${'x'.repeat(492)}😀`))).toBe(`Error: ${'x'.repeat(492)}\ufffd`)
  })
})

describe('work that loses its key', () => {
  /** First work runs past maxRun, a second holder takes the key over and answers; then the first one ends. */
  async function overtaken(end: (finish: (answer: Answer) => void, fail: (error: unknown) => void) => void) {
    const bundle = setup()
    const { once, request, pass } = bundle
    let signal: AbortSignal | undefined
    const first = errorOf(
      once.execute({ ...request, maxRun: '20s' }, (run) => {
        signal = run.signal
        return new Promise<Answer>((resolve, reject) => signal?.addEventListener('overtaken', () => end(resolve, reject)))
      }),
    )
    await pass(20)
    const reason = signal?.reason
    await pass(15)
    const second = await once.execute(request, attemptOf)
    signal?.dispatchEvent(new Event('overtaken'))
    return { ...bundle, reason, second, first: await first }
  }

  test('is told to stop at maxRun, and is replaced when its lease is over', async () => {
    const { reason, second } = await overtaken((finish) => finish(reply(200, 'too late')))
    expect(reason).toMatchObject({ code: 'max_run_exceeded' })
    expect(second.kind === 'executed' && bodyOf(second.answer)).toEqual({ attempt: 2, fence: 2 })
  })

  test('cannot store its answer any more', async () => {
    const { first, once, request, types } = await overtaken((finish) => finish(reply(200, 'too late')))
    expect(first).toEqual({ error: expect.objectContaining({ code: 'lease_lost' }) })
    expect(await once.execute(request, neverRun)).toMatchObject({ kind: 'replayed', answer: reply(200, { attempt: 2, fence: 2 }) })
    expect(types()).toEqual(['executing', 'max-run-exceeded', 'executing', 'finished', 'lease-lost', 'replayed'])
  })

  test('cannot release it any more, and throws what it threw', async () => {
    const { first, once, request, types } = await overtaken((_, fail) => fail(boom))
    expect(first).toEqual({ error: boom })
    expect(await once.execute(request, neverRun)).toMatchObject({ kind: 'replayed' })
    expect(types()).toContain('lease-lost')
    expect(types()).not.toContain('released')
  })
})

test('work that ends after maxRun but before anybody else came is stored', async () => {
  const { once, request, pass } = setup()
  let finish: (answer: Answer) => void = () => {}
  const first = once.execute({ ...request, maxRun: '10s' }, () => new Promise<Answer>((resolve) => (finish = resolve)))
  await pass(12)
  finish(reply(200, 'late'))
  expect(await first).toMatchObject({ kind: 'executed', stored: true })
})
