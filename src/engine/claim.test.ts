import { describe, expect, test, vi } from 'vitest'
import { type ErrorCode, OncekeyError } from '../core/errors.js'
import type { Verdict } from '../core/store.js'
import { createOnce } from '../create-once.js'
import { type Answer, type Run, reply } from '../index.js'
import { memoryStore } from '../stores/memory/index.js'
import { manualClock } from '../testing/manual-clock.js'
import { aClaim, aFinish, again, anAnswer, fingerprintOf, leaseMs, take } from '../testing/store-cases/store-case.js'
import { claimKey } from './claim.js'
import type { OnceEvent } from './events.js'
import type { ExecuteOptions } from './execute.js'
import type { EngineParts } from './parts.js'
import { RunningWork } from './running-work.js'
import { Withdrawals } from './withdrawals.js'

const second = 1_000
const turn = () => new Promise<void>((resolve) => setImmediate(resolve))
const trouble = (code: ErrorCode) => new OncekeyError(code, 'trouble')

/** A key that somebody holds, and a clock that moves in steps of a millisecond. */
async function setup({ storeTimeoutMs = 5 * second } = {}) {
  const clock = manualClock()
  const memory = memoryStore({ clock })
  const keyClaim = vi.fn(memory.keyClaim)
  const store = { ...memory, keyClaim }
  const report = () => {}
  const parts = {
    store,
    clock,
    report,
    storeTimeoutMs,
    running: new RunningWork(clock),
    withdrawals: new Withdrawals(store, clock),
    random: { uuid: () => crypto.randomUUID(), fraction: () => 0.5 },
  } as unknown as EngineParts
  const claim = aClaim()
  const held = await take(memory, claim)
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 1) {
      clock.advance(1)
      await turn()
    }
  }
  /** Begins to wait, and says what became of it and when. */
  const wait = (waitMs: number, waiting = again(claim)) => {
    const begun = clock.monotonic()
    const fate: { verdict?: Verdict; since?: number; error?: unknown; afterMs?: number } = {}
    claimKey(parts, waiting, waitMs)
      .then(
        ({ verdict, since }) => Object.assign(fate, { verdict, since: since - begun }),
        (error: unknown) => Object.assign(fate, { error }),
      )
      .finally(() => {
        fate.afterMs = clock.monotonic() - begun
      })
    return fate
  }
  return { clock, memory, store, claim, held, pass, wait }
}

describe('a claim that waits', () => {
  test('gets the answer within 50 ms of its being stored', async () => {
    const { memory, held, pass, wait } = await setup()
    const fate = wait(60 * second)
    for (const moment of [3_007, 11, 1]) await pass(moment)
    await memory.keyFinish(aFinish(held))
    expect(fate).toEqual({})
    await pass(50)
    expect(fate.verdict).toMatchObject({ kind: 'replay', answer: anAnswer, incarnation: held.lease.incarnation })
  })

  test('takes the key when it is given back', async () => {
    const { memory, held, pass, wait } = await setup()
    const fate = wait(60 * second)
    await pass(1_234)
    await memory.keyRelease({ lease: held.lease })
    await pass(50)
    expect(fate.verdict).toMatchObject({ kind: 'execute', lease: { fence: 2 } })
  })

  test('takes the key when the lease of its holder is over', async () => {
    const { clock, pass, wait } = await setup()
    const fate = wait(2 * leaseMs)
    await turn()
    clock.advance(leaseMs - 50)
    await pass(49)
    expect(fate).toEqual({})
    await pass(50)
    expect(fate.verdict).toMatchObject({ kind: 'execute', lease: { fence: 2 } })
  })

  test('asks with the same token each time', async () => {
    const { store, claim, pass, wait } = await setup()
    const waiting = again(claim)
    wait(100, waiting)
    await pass(200)
    expect(store.keyClaim.mock.calls.length).toBeGreaterThan(2)
    expect(new Set(store.keyClaim.mock.calls.map(([asked]) => asked))).toEqual(new Set([waiting]))
  })

  test('gives up when its time is over, and asks once more then', async () => {
    const { pass, wait } = await setup()
    const fate = wait(1_010)
    await pass(1_009)
    expect(fate).toEqual({})
    await pass(1)
    expect(fate).toMatchObject({ verdict: { kind: 'in-progress', retryAfterMs: leaseMs - 1_010 }, afterMs: 1_010 })
  })

  test.each(['mismatch', 'parked', 'replay', 'execute'] as const)('waits for nothing when the key is %s', async (kind) => {
    const { memory, held, claim, wait } = await setup()
    const { lease } = held
    if (kind === 'parked') await memory.keyPark({ lease, answer: anAnswer, reason: 'a test' })
    if (kind === 'replay') await memory.keyFinish(aFinish(held))
    if (kind === 'execute') await memory.keyRelease({ lease })
    const fate = wait(60 * second, again(claim, kind === 'mismatch' ? { fingerprint: fingerprintOf('something else') } : {}))
    await turn()
    expect(fate).toMatchObject({ verdict: { kind }, afterMs: 0 })
  })

  test('asks once if it is not to wait', async () => {
    const { store, wait } = await setup()
    const fate = wait(0)
    await turn()
    expect(fate).toMatchObject({ verdict: { kind: 'in-progress' }, afterMs: 0 })
    expect(store.keyClaim).toHaveBeenCalledTimes(1)
  })
})

describe('the store, while a claim waits', () => {
  test('may be away for a moment', async () => {
    const { memory, store, held, pass, wait } = await setup()
    const fate = wait(60 * second)
    await pass(100)
    store.keyClaim.mockRejectedValueOnce(trouble('store_unavailable')).mockRejectedValueOnce(trouble('store_unavailable'))
    await pass(1_000)
    await memory.keyFinish(aFinish(held))
    await pass(50)
    expect(fate.verdict).toMatchObject({ kind: 'replay' })
  })

  test('ends the wait with its error if it stays away, as in a first claim', async () => {
    const { store, pass, wait } = await setup()
    const fate = wait(60 * second)
    await pass(100)
    const before = store.keyClaim.mock.calls.length
    store.keyClaim.mockRejectedValue(trouble('store_unavailable'))
    await pass(5_000)
    expect(fate.error).toMatchObject({ code: 'store_unavailable' })
    expect(store.keyClaim.mock.calls.length - before).toBe(3)
  })

  test('has storeTimeout for each ask, not for the whole wait', async () => {
    const { store, pass, wait } = await setup({ storeTimeoutMs: 200 })
    const fate = wait(60 * second)
    await pass(2_000)
    expect(fate).toEqual({})
    store.keyClaim.mockImplementation(() => new Promise(() => {}))
    await pass(199)
    expect(fate).toEqual({})
    await pass(21)
    expect(fate.error).toMatchObject({ code: 'store_timeout' })
  })
})

describe('the beginning of a lease that was waited for', () => {
  test('is the last time that somebody else had the key, not the beginning of the wait', async () => {
    const { memory, held, pass, wait } = await setup()
    const fate = wait(60 * second)
    await pass(10 * second)
    await memory.keyRelease({ lease: held.lease })
    await pass(50)
    const { verdict, since = 0, afterMs = 0 } = fate
    expect(verdict).toMatchObject({ kind: 'execute' })
    // The ask before the one that got it.
    expect({ since: since > 10 * second - 50, before: afterMs - since }).toEqual({ since: true, before: 20 })
  })

  test('is the beginning of the claim if nobody had the key', async () => {
    const { memory, store, held, pass, wait } = await setup()
    await memory.keyRelease({ lease: held.lease })
    // The first try takes the key, and its acknowledgement is lost.
    store.keyClaim.mockImplementationOnce(async (claim) => {
      await memory.keyClaim(claim)
      throw trouble('store_unavailable')
    })
    const fate = wait(60 * second)
    await pass(1_000)
    expect(fate).toMatchObject({ verdict: { kind: 'execute', lease: { fence: 2 } }, since: 0 })
  })

  test('is never later than the lease, even if a try that was given up takes the key after all', async () => {
    const { clock, memory, store, held, claim, pass, wait } = await setup()
    const waiting = again(claim)
    store.keyClaim.mockRejectedValueOnce(trouble('store_unavailable'))
    const fate = wait(60 * second, waiting)
    await pass(1_005)
    await memory.keyRelease({ lease: held.lease })
    const taken = clock.monotonic()
    await memory.keyClaim(waiting)
    await pass(50)
    expect(fate.verdict).toMatchObject({ kind: 'execute', lease: { fence: 2 } })
    const certainUntil = taken - 1_005 + (fate.since as number) + leaseMs
    const { leaseUntil } = (await memory.keyRead(claim)) as { leaseUntil: number }
    expect(certainUntil).toBeLessThanOrEqual(leaseUntil)
    expect(certainUntil).toBeGreaterThan(leaseUntil - 100)
  })
})

describe('execute with wait', () => {
  const ref = { tenant: 'tenant', scope: 'orders.create', key: 'key-1' }
  const request: ExecuteOptions = { ...ref, fingerprint: { value: 1 }, afterFailure: 'rerun', wait: '30s' }

  function setup() {
    const clock = manualClock()
    const memory = memoryStore({ clock })
    const keyHeartbeat = vi.fn(memory.keyHeartbeat)
    const events: OnceEvent[] = []
    const once = createOnce({ store: { ...memory, keyHeartbeat }, clock, onEvent: (event) => events.push(event) })
    const pass = async (ms: number) => {
      for (let passed = 0; passed < ms; passed += 10) {
        clock.advance(10)
        await turn()
      }
    }
    /** Work that goes on until it is told how to end. */
    const openWork = () => {
      let end: { finish(answer: Answer): void; fail(error: Error): void } | undefined
      const ended = new Promise<Answer>((finish, fail) => {
        end = { finish, fail }
      })
      return { work: () => ended, ...(end as NonNullable<typeof end>) }
    }
    return { memory, keyHeartbeat, once, events, pass, openWork, types: () => events.map(({ type }) => type) }
  }

  test('replays the answer of the one who works on it, byte for byte, and reports nothing but that', async () => {
    const { once, pass, openWork, types } = setup()
    const { work, finish } = openWork()
    const owner = once.execute(request, work)
    await pass(10)
    const waiter = once.execute(request, () => reply(500))
    await pass(3 * second)
    const answer = reply(201, Uint8Array.of(0, 255, 13), { 'x-a': '1' })
    finish(answer)
    const { incarnation } = (await owner) as { incarnation: string }
    await pass(50)
    expect(await waiter).toEqual({ kind: 'replayed', state: 'complete', answer, incarnation })
    expect(types()).toEqual(['executing', 'finished', 'replayed'])
  })

  test('runs the work itself when the other one throws', async () => {
    const { once, pass, openWork, types } = setup()
    const { work, fail } = openWork()
    const owner = once.execute(request, work)
    await pass(10)
    const waiter = once.execute(request, ({ attempt }: Run) => reply(200, { attempt }))
    await pass(second)
    fail(new Error('boom'))
    await expect(owner).rejects.toThrow('boom')
    await pass(50)
    expect(await waiter).toMatchObject({ kind: 'executed', answer: reply(200, { attempt: 2 }) })
    expect(types()).toEqual(['executing', 'released', 'executing', 'finished'])
  })

  test('gives up in time, and reports once that it met somebody', async () => {
    const { once, pass, openWork, types } = setup()
    const { work, finish } = openWork()
    const owner = once.execute(request, work)
    await pass(10)
    const waiter = once.execute({ ...request, wait: '2s' }, () => reply(500))
    await pass(2 * second)
    expect(await waiter).toMatchObject({ kind: 'in-progress' })
    expect(types()).toEqual(['executing', 'met-in-progress'])
    finish(reply(204))
    await owner
  })

  test('counts lease and maxRun from when it got the key', async () => {
    const { memory, once, pass, openWork, keyHeartbeat, types } = setup()
    const { work, fail } = openWork()
    const owner = once.execute(request, work).catch(() => {})
    await pass(10)
    let signal: AbortSignal | undefined
    const waiter = once.execute({ ...request, maxRun: '20s' }, (run) => {
      signal = run.signal
      return new Promise<Answer>((resolve) => run.signal.addEventListener('abort', () => resolve(reply(200))))
    })
    await pass(12 * second)
    fail(new Error('boom'))
    await owner
    await pass(50)
    keyHeartbeat.mockRejectedValue(trouble('store_unavailable'))
    await pass(14 * second)
    expect(signal?.aborted).toBe(false)
    await pass(second)
    expect(types()).toEqual(expect.arrayContaining(['lease-in-doubt', 'finished']))
    expect(await waiter).toMatchObject({ kind: 'executed', stored: true })
    expect(await memory.keyRead(ref)).toMatchObject({ state: 'complete', fence: 2 })
  })

  test('refuses a wait that is no duration before it claims anything', async () => {
    const { memory, once } = setup()
    for (const wait of [0, -1, Number.POSITIVE_INFINITY, 'soon' as never]) {
      await expect(once.execute({ ...request, wait }, () => reply(200))).rejects.toMatchObject({ code: 'duration_invalid' })
    }
    expect(await memory.keyRead(ref)).toBeUndefined()
  })
})
