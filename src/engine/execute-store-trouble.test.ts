import { AsyncLocalStorage } from 'node:async_hooks'
import { describe, expect, test, vi } from 'vitest'
import { type Answer, reply } from '../core/answer.js'
import { type ErrorCode, OncekeyError } from '../core/errors.js'
import type { Store } from '../core/store.js'
import { createOnce, type OnceOptions } from '../create-once.js'
import { memoryStore } from '../stores/memory/index.js'
import { manualClock } from '../testing/manual-clock.js'
import type { OnceEvent } from './events.js'
import type { ExecuteOptions } from './execute.js'

const second = 1_000
const ref = { tenant: 'tenant', scope: 'orders.create', key: 'key-1' }
const turn = () => new Promise<void>((resolve) => setImmediate(resolve))
const trouble = (code: ErrorCode) => new OncekeyError(code, 'trouble')
const answer = reply(201, { id: 'order-1' })

/** A memory store between which and the engine each verb can be made to misbehave. */
function setup(options: Partial<OnceOptions> = {}) {
  const clock = manualClock()
  const memory = memoryStore({ clock })
  const store = {
    ...memory,
    keyClaim: vi.fn(memory.keyClaim),
    keyHeartbeat: vi.fn(memory.keyHeartbeat),
    keyFinish: vi.fn(memory.keyFinish),
    keyRelease: vi.fn(memory.keyRelease),
    keyWithdraw: vi.fn(memory.keyWithdraw),
  } satisfies Store
  const events: OnceEvent[] = []
  const once = createOnce({ store, clock, onEvent: (event) => events.push(event), ...options })
  const request: ExecuteOptions = { ...ref, fingerprint: { value: 1 }, afterFailure: 'rerun' }
  const pass = async (seconds: number) => {
    for (let passed = 0; passed < seconds; passed += 0.25) {
      clock.advance(0.25 * second)
      await turn()
    }
  }
  /** Lets enough time pass for whatever is being tried again, and gives what came out. */
  const ends = async <T>(promise: Promise<T>, seconds = 20) => {
    const fate = promise.then(
      (outcome) => ({ outcome }),
      (error: unknown) => ({ error }),
    )
    await pass(seconds)
    return fate
  }
  /** The next claim reaches the store only when the returned function is called. */
  const delayClaim = () => {
    const { promise, keep } = promised<void>()
    store.keyClaim.mockImplementationOnce((claim) => promise.then(() => memory.keyClaim(claim)))
    return keep
  }
  const types = () => events.map(({ type }) => type)
  const work = vi.fn(async (): Promise<Answer> => answer)
  return { memory, store, once, events, types, request, pass, ends, delayClaim, work }
}

/** A promise, and the means to keep it. */
function promised<T>() {
  let keep: (value: T | Promise<T>) => void = () => {}
  const promise = new Promise<T>((resolve) => {
    keep = resolve
  })
  return { promise, keep }
}

describe('a claim', () => {
  test.each(['store_failed', 'store_forbidden', 'schema_missing', 'store_key_collision'] as const)(
    'that fails with %s is not tried again, and nothing runs',
    async (code) => {
      const { once, store, request, work, events } = setup()
      store.keyClaim.mockRejectedValueOnce(trouble(code))
      await expect(once.execute(request, work)).rejects.toMatchObject({ code })
      expect(store.keyClaim).toHaveBeenCalledTimes(1)
      expect(work).not.toHaveBeenCalled()
      expect(events).toMatchObject([{ ...ref, type: 'not-claimed', error: { code } }])
    },
  )

  test('is tried three times while the store cannot be reached, and then nothing runs', async () => {
    const { once, store, request, work, ends } = setup()
    store.keyClaim.mockRejectedValue(trouble('store_unavailable'))
    expect(await ends(once.execute(request, work))).toEqual({ error: expect.objectContaining({ code: 'store_unavailable' }) })
    expect(store.keyClaim).toHaveBeenCalledTimes(3)
    expect(work).not.toHaveBeenCalled()
  })

  test('whose acknowledgement was lost knows itself again', async () => {
    const { once, store, memory, request, work, ends } = setup()
    store.keyClaim.mockImplementationOnce(async (claim) => {
      await memory.keyClaim(claim)
      throw trouble('store_unavailable')
    })
    expect(await ends(once.execute(request, work))).toMatchObject({ outcome: { kind: 'executed', answer, stored: true } })
    const [first, again] = store.keyClaim.mock.calls
    expect(again?.[0].owner).toBe(first?.[0].owner)
    expect(work).toHaveBeenCalledWith(expect.objectContaining({ attempt: 1 }))
  })

  test('that is acknowledged too late is withdrawn, so that the next one runs at once', async () => {
    const { once, store, delayClaim, request, work, ends } = setup({ storeTimeout: '2s' })
    const keep = delayClaim()
    expect(await ends(once.execute(request, work), 2)).toEqual({ error: expect.objectContaining({ code: 'store_timeout' }) })
    keep()
    await turn()
    expect(store.keyWithdraw).toHaveBeenCalledWith({ ...ref, owner: expect.any(String) }, expect.anything())
    expect(work).not.toHaveBeenCalled()
    expect(await ends(once.execute(request, work))).toMatchObject({ outcome: { kind: 'executed', answer, stored: true } })
    expect(work).toHaveBeenCalledTimes(1)
  })

  test('that comes back too late with nothing in its hands withdraws nothing', async () => {
    const { once, store, delayClaim, request, work, ends } = setup()
    await once.execute(request, work)
    const keep = delayClaim()
    expect(await ends(once.execute(request, work), 5)).toEqual({ error: expect.objectContaining({ code: 'store_timeout' }) })
    keep()
    await turn()
    expect(store.keyWithdraw).not.toHaveBeenCalled()
  })

  test('that cannot be withdrawn at once is withdrawn when the store answers again', async () => {
    const { once, store, memory, delayClaim, request, work, ends, pass } = setup()
    const keep = delayClaim()
    store.keyWithdraw.mockRejectedValueOnce(trouble('store_unavailable'))
    await ends(once.execute(request, work), 5)
    keep()
    await turn()
    expect(await memory.keyRead(ref)).toMatchObject({ state: 'processing' })
    await pass(1)
    expect(await memory.keyRead(ref)).toBeUndefined()
  })

  test('that fails although it arrived is withdrawn, also when it arrives after the first withdrawal', async () => {
    const { once, store, memory, request, work, ends, pass } = setup()
    const { promise: server, keep: recovers } = promised<void>()
    store.keyClaim.mockImplementation(async (claim) => {
      void server.then(() => memory.keyClaim(claim))
      throw trouble('store_timeout')
    })
    // Its three tries, and the first withdrawals, which come before the claims.
    expect(await ends(once.execute(request, work), 1)).toEqual({ error: expect.objectContaining({ code: 'store_timeout' }) })
    expect(store.keyClaim).toHaveBeenCalledTimes(3)
    expect(store.keyWithdraw).toHaveBeenCalled()
    for (const { value } of store.keyWithdraw.mock.settledResults) expect(value).toBe('absent')
    recovers()
    await turn()
    expect(await memory.keyRead(ref)).toMatchObject({ state: 'processing' })
    await pass(2)
    expect(await memory.keyRead(ref)).toBeUndefined()
    expect(work).not.toHaveBeenCalled()
  })
})

test('a process that stops does not wait for withdrawals that take longer than it may', async () => {
  const { once, store, request, work, ends, pass } = setup({ storeTimeout: '1s' })
  store.keyClaim.mockRejectedValue(trouble('store_timeout'))
  store.keyWithdraw.mockImplementation(() => new Promise(() => {}))
  await ends(once.execute(request, work), 1)
  let isStopped = false
  void once.stop({ within: '100ms' }).then(() => {
    isStopped = true
  })
  await pass(1.5)
  expect(isStopped).toBe(true)
})

describe('a finish', () => {
  test('that fails leaves the caller with the true answer, and says that it is not stored', async () => {
    const { once, store, request, work, events } = setup({ maxAnswerBytes: 3 })
    const error = trouble('store_failed')
    store.keyFinish.mockRejectedValue(error)
    expect(await once.execute(request, work)).toMatchObject({ kind: 'executed', answer, stored: false, error })
    expect(events.at(-1)).toEqual({ ...ref, type: 'answer-not-stored', error, durationMs: expect.any(Number) })
  })

  test('is tried again for as long as the lease is certain', async () => {
    const { once, store, request, work, ends, types } = setup({ storeTimeout: '1s' })
    for (let tries = 0; tries < 8; tries += 1) store.keyFinish.mockRejectedValueOnce(trouble('store_unavailable'))
    expect(await ends(once.execute(request, work))).toMatchObject({ outcome: { kind: 'executed', answer, stored: true } })
    expect(types()).toEqual(['executing', 'finished'])
  })

  test('is given up when the lease is over', async () => {
    const { once, store, request, work, ends } = setup({ storeTimeout: '1s' })
    store.keyFinish.mockRejectedValue(trouble('store_unavailable'))
    expect(await ends(once.execute(request, work), 15)).toMatchObject({ outcome: { kind: 'executed', answer, stored: false } })
  })

  test('whose acknowledgement was lost is not taken for a lost lease', async () => {
    const { once, store, memory, request, work, ends } = setup()
    store.keyFinish.mockImplementationOnce(async (finish) => {
      await memory.keyFinish(finish)
      throw trouble('store_unavailable')
    })
    expect(await ends(once.execute(request, work))).toMatchObject({ outcome: { kind: 'executed', answer, stored: true } })
  })

  test('that somebody else came before is an error, and stores nothing', async () => {
    const { once, store, request, work, types } = setup()
    store.keyFinish.mockResolvedValueOnce('lost')
    await expect(once.execute(request, work)).rejects.toMatchObject({ code: 'lease_lost' })
    expect(types()).toEqual(['executing', 'lease-lost'])
    expect(store.keyRelease).not.toHaveBeenCalled()
  })

  test('whose acknowledgement is slow is not taken for a lost lease by the heartbeat', async () => {
    const { once, store, memory, request, work, ends, types } = setup({ storeTimeout: '14s' })
    const { promise, keep } = promised<void>()
    store.keyFinish.mockImplementationOnce(async (finish) => {
      const result = await memory.keyFinish(finish)
      await promise
      return result
    })
    const executed = once.execute(request, work)
    await ends(Promise.resolve(), 6)
    keep()
    expect(await executed).toMatchObject({ kind: 'executed', answer, stored: true })
    expect(types()).toEqual(['executing', 'finished'])
  })
})

describe('a heartbeat', () => {
  /** Work that is under way, and the means to end it. */
  async function underWay(bundle: ReturnType<typeof setup>) {
    const { promise, keep } = promised<Answer>()
    const signals: AbortSignal[] = []
    const executed = bundle.once.execute(bundle.request, ({ signal }) => {
      signals.push(signal)
      return promise
    })
    await turn()
    return { executed, finish: (end: Answer | Promise<never> = answer) => keep(end), stopReason: () => signals[0]?.reason }
  }

  test('that finds the key lost keeps the answer from being sent to the store', async () => {
    const bundle = setup()
    const { store, pass, types } = bundle
    store.keyHeartbeat.mockResolvedValueOnce(['lost'])
    const { executed, finish, stopReason } = await underWay(bundle)
    await pass(5)
    expect(stopReason()).toMatchObject({ code: 'lease_lost' })
    finish()
    await expect(executed).rejects.toMatchObject({ code: 'lease_lost' })
    expect(store.keyFinish).not.toHaveBeenCalled()
    expect(types()).toEqual(['executing', 'lease-lost'])
  })

  test('that finds the key lost keeps a failure from being sent to the store', async () => {
    const bundle = setup()
    const { store, pass, types } = bundle
    store.keyHeartbeat.mockResolvedValueOnce(['lost'])
    const { executed, finish } = await underWay(bundle)
    await pass(5)
    finish(Promise.reject(new Error('aborted')))
    await expect(executed).rejects.toThrow('aborted')
    expect(store.keyRelease).not.toHaveBeenCalled()
    expect(types()).toEqual(['executing', 'lease-lost'])
  })

  test('that was never confirmed tells the work to stop, but its answer is stored if nobody else came', async () => {
    const bundle = setup()
    const { store, pass, types } = bundle
    store.keyHeartbeat.mockRejectedValue(trouble('store_unavailable'))
    store.keyFinish.mockRejectedValueOnce(trouble('store_unavailable'))
    const { executed, finish, stopReason } = await underWay(bundle)
    await pass(15)
    expect(stopReason()).toMatchObject({ code: 'lease_lost', message: expect.stringContaining('No heartbeat') })
    finish()
    expect(await bundle.ends(executed, 2)).toMatchObject({ outcome: { kind: 'executed', answer, stored: true } })
    expect(types()).toEqual(['executing', 'heartbeat-failed', 'heartbeat-failed', 'lease-in-doubt', 'heartbeat-failed', 'finished'])
  })
})

describe('a failure that cannot be stored', () => {
  test.each(['rerun', 'store'] as const)('comes out as it is under %s, and is left to the lease', async (afterFailure) => {
    const { once, store, request, events } = setup()
    const [boom, error] = [new Error('boom'), trouble('store_failed')]
    store.keyRelease.mockRejectedValue(error)
    store.keyFinish.mockRejectedValue(error)
    await expect(once.execute({ ...request, afterFailure }, () => Promise.reject(boom))).rejects.toBe(boom)
    expect(events.at(-1)).toEqual({ ...ref, type: 'answer-not-stored', error, durationMs: expect.any(Number) })
  })
})

test('listeners hear that the store did not answer in the context of the request that it is about', async () => {
  const context = new AsyncLocalStorage<string>()
  const heard: unknown[] = []
  const { once, store, request, pass, work } = setup({
    onEvent: (event) => void heard.push([event.type, 'key' in event && event.key, context.getStore()]),
  })
  store.keyClaim.mockImplementation(() => new Promise(() => {}))
  const ends = ['a', 'b', 'c'].map((key) => context.run(key, () => once.execute({ ...request, key }, work)).catch(() => {}))
  await pass(10)
  await Promise.all(ends)
  expect(heard).toEqual(['a', 'b', 'c'].map((key) => ['not-claimed', key, key]))
})
