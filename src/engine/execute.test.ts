import { describe, expect, expectTypeOf, test, vi } from 'vitest'
import { type Answer, bodyOf, type Reply, reply } from '../core/answer.js'
import { keyId } from '../core/key.js'
import { createOnce, type OnceOptions } from '../create-once.js'
import { memoryStore } from '../stores/memory/index.js'
import { manualClock } from '../testing/manual-clock.js'
import type { OnceEvent } from './events.js'
import type { ExecuteOptions } from './execute.js'
import type { Run } from './held.js'

const second = 1_000
const ref = { tenant: 'tenant', scope: 'orders.create', key: 'key-1' }
const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

function setup(options: Partial<OnceOptions> = {}) {
  const clock = manualClock()
  const store = memoryStore({ clock })
  const events: OnceEvent[] = []
  const once = createOnce({ store, clock, onEvent: (event) => events.push(event), ...options })
  const request: ExecuteOptions = { ...ref, fingerprint: { method: 'POST', value: { amount: 100 } }, afterFailure: 'rerun' }
  const pass = async (seconds: number) => {
    for (let passed = 0; passed < seconds; passed += 1) {
      clock.advance(second)
      await turn()
    }
  }
  return { clock, store, once, events, request, pass }
}

/** Work that goes on until it is told what to answer. */
function openWork() {
  let finish: (answer: Answer) => void = () => {}
  const answer = new Promise<Answer>((resolve) => {
    finish = resolve
  })
  const runs: Run[] = []
  const work = (run: Run) => {
    runs.push(run)
    return answer
  }
  return { work, runs, finish }
}

const neverRun = () => {
  throw new Error('must not run')
}

describe('execute', () => {
  test('runs the work of a new key and stores its answer', async () => {
    const { once, request, store, events } = setup()
    const outcome = await once.execute(request, () => reply(201, { id: 'order-1' }))
    expect(outcome).toEqual({ kind: 'executed', answer: reply(201, { id: 'order-1' }), incarnation: expect.any(String), stored: true })
    expect(await store.keyRead(ref)).toMatchObject({ state: 'complete', answer: reply(201, { id: 'order-1' }) })
    expect(events).toEqual([
      { ...ref, type: 'executing', attempt: 1, takenOver: false, recoveryPoint: null, by: 'request' },
      { ...ref, type: 'finished', status: 201, durationMs: 0, committed: true },
    ])
  })

  test('replays a finished answer, byte for byte', async () => {
    const { once, request, events } = setup()
    const answer = reply(402, Uint8Array.of(0, 255, 13, 10), [
      ['x-b', '1'],
      ['x-a', '2'],
      ['x-b', '3'],
    ])
    await once.execute(request, async () => answer)
    expect(await once.execute(request, neverRun)).toEqual({ kind: 'replayed', state: 'complete', answer, incarnation: expect.any(String) })
    expect(events.at(-1)).toEqual({ ...ref, type: 'replayed', state: 'complete' })
  })

  test('tells the work who it is', async () => {
    const { once, request } = setup()
    const runs: Run[] = []
    await once.execute({ ...request, request: Uint8Array.of(1) }, (run) => {
      runs.push(run)
      return reply(200)
    })
    expect(runs).toEqual([
      {
        tenant: ref.tenant,
        scope: ref.scope,
        idempotencyKey: ref.key,
        id: keyId(ref),
        incarnation: expect.any(String),
        attempt: 1,
        fence: 1,
        signal: expect.any(AbortSignal),
        key: expect.any(Function),
        phase: expect.any(Function),
        call: expect.any(Function),
        fetch: expect.any(Function),
        finish: expect.any(Function),
        stage: expect.any(Function),
      },
    ])
  })

  test('tells others to wait while the work runs, for as long as the lease runs', async () => {
    const { once, request, pass, events } = setup()
    const { work, finish } = openWork()
    const first = once.execute(request, work)
    await pass(2)
    expect(await once.execute(request, neverRun)).toEqual({ kind: 'in-progress', retryAfterMs: 13 * second })
    expect(events.at(-1)).toEqual({ ...ref, type: 'met-in-progress', retryAfterMs: 13 * second })
    finish(reply(204))
    expect(await first).toMatchObject({ kind: 'executed', stored: true })
  })

  test('keeps the key of work that takes longer than its lease', async () => {
    const { once, request, pass } = setup()
    const { work, runs, finish } = openWork()
    const first = once.execute(request, work)
    await pass(120)
    expect(await once.execute(request, neverRun)).toMatchObject({ kind: 'in-progress' })
    expect(runs[0]?.signal.aborted).toBe(false)
    finish(reply(204))
    expect(await first).toMatchObject({ kind: 'executed', stored: true })
  })

  test('lets go of the lease once the work is done', async () => {
    let heartbeats = 0
    const memory = memoryStore()
    const keyHeartbeat: typeof memory.keyHeartbeat = (heartbeat) => {
      heartbeats += 1
      return memory.keyHeartbeat(heartbeat)
    }
    const { once, request, pass } = setup({ store: { ...memory, keyHeartbeat } })
    await once.execute(request, () => reply(200))
    await expect(once.execute({ ...request, key: 'key-2' }, neverRun)).rejects.toThrow('must not run')
    await pass(60)
    expect(heartbeats).toBe(0)
  })

  test('names what differs when a key comes back with something else, in flight and finished', async () => {
    const { once, request, events } = setup()
    const { work, finish } = openWork()
    const first = once.execute(request, work)
    await turn()
    const other = { ...request, fingerprint: { method: 'POST', value: { amount: 101 } } }
    expect(await once.execute(other, neverRun)).toEqual({ kind: 'mismatch', part: 'body' })
    finish(reply(200, 'first'))
    await first
    expect(await once.execute(other, neverRun)).toEqual({ kind: 'mismatch', part: 'body' })
    expect(events.at(-1)).toEqual({ ...ref, type: 'mismatched', part: 'body' })
    expect(await once.execute(request, neverRun)).toMatchObject({ kind: 'replayed' })
  })

  test('compares nothing when the fingerprint is false', async () => {
    const { once, request } = setup()
    await once.execute(request, () => reply(200, 'first'))
    expect(await once.execute({ ...request, fingerprint: false }, neverRun)).toMatchObject({ kind: 'replayed' })
  })

  test('runs again after the retention, as another life of the key', async () => {
    const { once, request, clock } = setup({ retention: '1h' })
    const lives: string[] = []
    const work = ({ incarnation, attempt }: Run) => {
      lives.push(`${incarnation} ${attempt}`)
      return reply(200)
    }
    await once.execute(request, work)
    clock.advance(3_599 * second)
    expect(await once.execute(request, work)).toMatchObject({ kind: 'replayed' })
    clock.advance(second)
    expect(await once.execute(request, work)).toMatchObject({ kind: 'executed' })
    expect(new Set(lives).size).toBe(2)
    expect(lives.every((life) => life.endsWith(' 1'))).toBe(true)
  })

  test('keeps the request with the key', async () => {
    const { once, request, store } = setup()
    await once.execute({ ...request, request: Buffer.from('{"amount":100}') }, () => reply(200))
    expect(Buffer.from((await store.keyRead(ref))?.request ?? []).toString()).toBe('{"amount":100}')
  })

  test('does not keep a body over the cap, but the work stays done', async () => {
    const { once, request } = setup({ maxAnswerBytes: 6 })
    const large = reply(201, 'seven', { 'x-id': '1' })
    expect(await once.execute(request, () => large)).toMatchObject({ kind: 'executed', answer: large, stored: true })
    const replay = await once.execute(request, neverRun)
    expect(replay).toMatchObject({
      kind: 'replayed',
      state: 'complete',
      answer: { status: 201, headers: large.headers, body: new Uint8Array(), omittedBytes: 7 },
    })
    expect(() => bodyOf((replay as { answer: Reply }).answer)).toThrow(/7 bytes was over maxAnswerBytes/)
  })

  test('keeps a body of exactly the cap', async () => {
    const { once, request } = setup({ maxAnswerBytes: 7 })
    await once.execute(request, () => reply(201, 'seven'))
    expect(await once.execute(request, neverRun)).toMatchObject({ answer: reply(201, 'seven') })
  })

  test('has a cap of eight mebibytes', async () => {
    const { once, request } = setup()
    const [largest, larger] = [new Uint8Array(8 * 1024 ** 2), new Uint8Array(8 * 1024 ** 2 + 1)]
    await once.execute(request, () => reply(200, largest))
    await once.execute({ ...request, key: 'key-2' }, () => reply(200, larger))
    expect(await once.execute(request, neverRun)).not.toHaveProperty('answer.omittedBytes')
    expect(await once.execute({ ...request, key: 'key-2' }, neverRun)).toHaveProperty('answer.omittedBytes', 8 * 1024 ** 2 + 1)
  })

  test('does not mind a listener that throws', async () => {
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const onEvent = vi.fn(() => {
      throw new Error('metrics are down')
    })
    const { once, request, store } = setup({ onEvent })
    expect(await once.execute(request, () => reply(200))).toMatchObject({ kind: 'executed', stored: true })
    expect(await once.execute(request, neverRun)).toMatchObject({ kind: 'replayed' })
    await expect(once.execute({ ...request, key: 'key-2' }, neverRun)).rejects.toThrow('must not run')
    expect(await store.keyRead({ ...ref, key: 'key-2' })).toMatchObject({ state: 'pending' })
    expect(onEvent).toHaveBeenCalledTimes(5)
    warn.mockRestore()
  })

  test('types its outcomes after the replies of the work', async () => {
    const { once, request } = setup()
    const outcome = await once.execute(request, async ({ attempt }) =>
      attempt > 9 ? reply(402, { error: 'declined' }) : reply(201, { id: 'a', at: new Date(0) }),
    )
    if (outcome.kind === 'executed' || (outcome.kind === 'replayed' && outcome.state === 'complete')) {
      expectTypeOf(bodyOf(outcome.answer)).toEqualTypeOf<{ error: string } | { id: string; at: string }>()
      expect(bodyOf(outcome.answer)).toEqual({ id: 'a', at: '1970-01-01T00:00:00.000Z' })
    }
    expectTypeOf(outcome.kind).toEqualTypeOf<'executed' | 'replayed' | 'in-progress' | 'mismatch' | 'parked'>()
    const empty = await once.execute({ ...request, key: 'key-2' }, () => reply(204))
    if (empty.kind === 'executed') expectTypeOf(bodyOf(empty.answer)).toEqualTypeOf<undefined>()
    const plain = await once.execute({ ...request, key: 'key-3' }, (): Answer => reply(204))
    if (plain.kind === 'executed') expectTypeOf(bodyOf(plain.answer)).toEqualTypeOf<unknown>()
    expect([outcome.kind, empty.kind, plain.kind]).toEqual(['executed', 'executed', 'executed'])
  })

  test('takes nothing but answers from the work', () => {
    const { once, request } = setup()
    // @ts-expect-error a body is not an answer
    const bare = () => once.execute(request, () => ({ id: 'order-1' }))
    // @ts-expect-error afterFailure has no default
    const undecided = () => once.execute({ ...ref, fingerprint: false }, () => reply(204))
    expect([bare, undecided]).toHaveLength(2)
  })
})
