import { afterEach, describe, expect, test, vi } from 'vitest'
import { type Clock, systemClock } from '../core/clock.js'
import { OncekeyError } from '../core/errors.js'
import type { LeaseRenewal, LeaseStanding, Store } from '../core/store.js'
import { manualClock } from '../testing/manual-clock.js'
import { type HoldOptions, LeaseKeeper } from './lease-keeper.js'

const second = 1_000
const down = new OncekeyError('store_unavailable', 'down')
type Answers = (leases: readonly LeaseRenewal[], beat: number) => LeaseStanding[] | Promise<LeaseStanding[]>

const renewAll: Answers = (leases) => leases.map(() => 'renewed')
const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

function setup(answers: Answers = renewAll, clock: Clock = manualClock()) {
  /** The ids of the leases in each call of the store. */
  const beats: string[][] = []
  const events: { key: string; type: string }[] = []
  const keyHeartbeat: Store['keyHeartbeat'] = async ({ leases }) => {
    beats.push(leases.map(({ id }) => id))
    return answers(leases, beats.length)
  }
  const keeper = new LeaseKeeper({
    store: { keyHeartbeat },
    clock,
    random: { uuid: () => 'uuid', fraction: () => 0.5 },
    report: ({ key }, { type }) => events.push({ key, type }),
  })
  const hold = (key: string, options: Partial<HoldOptions> = {}) =>
    keeper.hold(
      { tenant: 'tenant', scope: 'scope', key },
      {
        lease: { tenant: 'tenant', id: key, incarnation: 'incarnation', fence: 1, owner: 'owner' },
        leaseMs: 15 * second,
        maxRunMs: 900 * second,
        since: clock.monotonic(),
        ...options,
      },
    )
  /** Second by second, with everything that happens in between. */
  const pass = async (seconds: number) => {
    for (let passed = 0; passed < seconds; passed += 0.5) {
      ;(clock as ReturnType<typeof manualClock>).advance(0.5 * second)
      await turn()
    }
  }
  return { clock, beats, events, hold, pass }
}

afterEach(() => {
  vi.useRealTimers()
})

describe('LeaseKeeper', () => {
  test('renews many leases with one call, each for its own length', async () => {
    const answers = vi.fn(renewAll)
    const { hold, pass, beats } = setup(answers)
    hold('a')
    hold('b', { leaseMs: 30 * second })
    hold('c')
    await pass(5)
    expect(beats).toEqual([['a', 'b', 'c']])
    const b = { tenant: 'tenant', id: 'b', incarnation: 'incarnation', fence: 1, owner: 'owner', leaseMs: 30 * second }
    expect(answers.mock.calls[0]?.[0][1]).toEqual(b)
  })

  test('renews three times before a lease would run out', async () => {
    const { hold, pass, beats } = setup()
    const { signal } = hold('a')
    await pass(4.5)
    expect(beats).toHaveLength(0)
    await pass(55.5)
    expect(beats).toHaveLength(12)
    expect(signal.aborted).toBe(false)
  })

  test('beats in time for the shortest lease, also for one that comes later', async () => {
    const { hold, pass, beats } = setup()
    hold('long', { leaseMs: 60 * second })
    await pass(1)
    const short = hold('short', { leaseMs: 3 * second })
    await pass(5)
    expect(beats).toEqual(Array(5).fill(['long', 'short']))
    expect(short.signal.aborted).toBe(false)
  })

  test('beats no longer when there is nothing to hold', async () => {
    const { hold, pass, beats } = setup()
    const [a, b] = [hold('a'), hold('b')]
    a.letGo()
    await pass(5)
    expect(beats).toEqual([['b']])
    b.letGo()
    await pass(60)
    expect(beats).toHaveLength(1)
    hold('c')
    await pass(5)
    expect(beats).toEqual([['b'], ['c']])
  })

  test('leaves no timer behind when there is nothing to hold', () => {
    vi.useFakeTimers()
    const { hold } = setup(renewAll, systemClock)
    const [a, b] = [hold('a'), hold('b')]
    a.letGo()
    expect(vi.getTimerCount()).toBe(1)
    b.letGo()
    expect(vi.getTimerCount()).toBe(0)
  })

  test('knows a lease to be certain from when the request was sent', async () => {
    let answer: (standings: LeaseStanding[]) => void = () => {}
    const { hold, pass, clock } = setup(() => new Promise((resolve) => (answer = resolve)))
    const start = clock.monotonic()
    await pass(1)
    const holding = hold('a', { since: start })
    expect(holding.certainUntil()).toBe(start + 15 * second)
    await pass(8)
    answer(['renewed'])
    await turn()
    expect(holding.certainUntil()).toBe(start + 6 * second + 15 * second)
  })

  test('tells work to stop that runs longer than maxRun, and renews it no more', async () => {
    const { hold, pass, beats, events } = setup()
    const long = hold('long', { maxRunMs: 12 * second })
    const other = hold('other')
    await pass(11.5)
    expect(long.signal.aborted).toBe(false)
    await pass(0.5)
    expect(long.signal.reason).toMatchObject({ code: 'max_run_exceeded' })
    expect(long.isLost()).toBe(false)
    const sent = beats.length
    await pass(30)
    expect(beats.slice(sent).flat()).not.toContain('long')
    expect(beats.slice(sent).flat()).toContain('other')
    expect(other.signal.aborted).toBe(false)
    expect(events).toEqual([{ key: 'long', type: 'max-run-exceeded' }])
  })

  test('sends no heartbeat at the end of maxRun, although its timer fires a little early', async () => {
    const manual = manualClock()
    const early: Clock = { ...manual, schedule: (task, delayMs, options) => manual.schedule(task, Math.max(0, delayMs - 0.9), options) }
    const { hold, beats, events } = setup(renewAll, early)
    hold('a', { leaseMs: 600 * second, maxRunMs: 5 * second })
    manual.advance(5 * second - 0.9)
    await turn()
    expect(events).toEqual([{ key: 'a', type: 'max-run-exceeded' }])
    expect(beats).toEqual([])
  })

  test('counts maxRun from the claim', async () => {
    const { hold, pass, clock } = setup()
    const { signal } = hold('a', { since: clock.monotonic() - 2 * second, maxRunMs: 4 * second })
    await pass(2)
    expect(signal.aborted).toBe(true)
  })

  test('tells work to stop whose lease somebody else has', async () => {
    const { hold, pass, beats, events } = setup((leases) => leases.map(({ id }) => (id === 'a' ? 'lost' : 'renewed')))
    const [a, b] = [hold('a'), hold('b')]
    await pass(20)
    expect(a.signal.reason).toMatchObject({ code: 'lease_lost' })
    expect([a.isLost(), b.isLost()]).toEqual([true, false])
    expect(b.signal.aborted).toBe(false)
    expect(beats).toEqual([['a', 'b'], ['b'], ['b'], ['b']])
    expect(events).toEqual([{ key: 'a', type: 'lease-lost' }])
  })

  test('reports a loss once, also if the work noticed it first', async () => {
    const { hold, pass, events } = setup(() => ['lost'])
    const holding = hold('a')
    holding.tellLost()
    expect(holding.signal.aborted).toBe(false)
    await pass(20)
    holding.tellLost()
    expect(holding.signal.reason).toMatchObject({ code: 'lease_lost' })
    expect(events).toEqual([{ key: 'a', type: 'lease-lost' }])
  })

  test('tells a signal and a listener alike, those that come before the loss and those that come after it', async () => {
    const { hold, pass } = setup(() => ['lost'])
    const holding = hold('a')
    const early = holding.signal
    const told: unknown[] = []
    holding.onAbort((reason) => told.push(reason))
    expect([early.aborted, told]).toEqual([false, []])
    await pass(20)
    holding.onAbort((reason) => told.push(reason))
    expect(told).toEqual([early.reason, early.reason])
    expect(early.reason).toMatchObject({ code: 'lease_lost' })

    const late = hold('b')
    await pass(20)
    expect(late.signal.reason).toMatchObject({ code: 'lease_lost' })
    expect(late.signal).toBe(late.signal)
  })

  test('survives heartbeats that fail or find the row busy, as long as the next is confirmed', async () => {
    const { hold, pass, events } = setup((_, beat) => (beat % 4 === 1 ? ['busy'] : beat % 4 === 3 ? Promise.reject(down) : ['renewed']))
    const { signal } = hold('a')
    await pass(60)
    expect(signal.aborted).toBe(false)
    expect(events).toEqual(Array(3).fill({ key: 'a', type: 'heartbeat-failed' }))
  })

  test.each<[string, Answers]>([
    ['fail', () => Promise.reject(down)],
    ['find the row busy', () => ['busy']],
  ])('tells work to stop when its heartbeats %s until its lease is in doubt', async (_, answers) => {
    const { hold, pass, beats, events } = setup(answers)
    const holding = hold('a')
    await pass(14.5)
    expect(holding.signal.aborted).toBe(false)
    await pass(0.5)
    expect(holding.signal.reason).toMatchObject({ code: 'lease_lost', message: expect.stringContaining('No heartbeat was confirmed') })
    expect(holding.isLost()).toBe(false)
    await pass(15)
    expect(beats).toHaveLength(6)
    expect(events.filter(({ type }) => type === 'lease-in-doubt')).toEqual([{ key: 'a', type: 'lease-in-doubt' }])
  })

  test('tells work to stop at the moment its lease is in doubt, though its claim took a while', async () => {
    const { hold, pass, clock } = setup(() => Promise.reject(down))
    const { signal } = hold('a', { since: clock.monotonic() - second })
    await pass(14)
    expect(signal.aborted).toBe(true)
  })

  test('says so when a lease that was in doubt turns out to be lost', async () => {
    const { hold, pass, beats, events } = setup((_, beat) => (beat < 4 ? ['busy'] : ['lost']))
    const holding = hold('a')
    await pass(60)
    expect(events.map(({ type }) => type)).toEqual(['lease-in-doubt', 'lease-lost'])
    expect(holding.signal.reason).toMatchObject({ message: expect.stringContaining('No heartbeat was confirmed') })
    expect(holding.isLost()).toBe(true)
    expect(beats).toHaveLength(4)
  })

  test('says nothing of work that finished while its heartbeat was under way', async () => {
    let answer: (standings: LeaseStanding[]) => void = () => {}
    const { hold, pass, events } = setup(() => new Promise((resolve) => (answer = resolve)))
    const holding = hold('a')
    await pass(6)
    holding.letGo()
    answer(['lost'])
    await turn()
    expect(holding.signal.aborted).toBe(false)
    expect(events).toEqual([])
  })
})

describe('a heartbeat that hangs', () => {
  const hang = () => new Promise<LeaseStanding[]>(() => {})

  test('does not stop the later ones', async () => {
    vi.useFakeTimers()
    const { hold, beats, events } = setup((leases, beat) => (beat === 1 ? hang() : renewAll(leases, beat)), systemClock)
    const { signal } = hold('a')
    await vi.advanceTimersByTimeAsync(60 * second)
    expect(beats.length).toBeGreaterThanOrEqual(11)
    expect(signal.aborted).toBe(false)
    expect(events).toEqual([{ key: 'a', type: 'heartbeat-failed' }])
  })

  test('of a long lease does not stop those of a short one', async () => {
    vi.useFakeTimers()
    const { hold, beats } = setup((leases, beat) => (beat === 1 ? hang() : renewAll(leases, beat)), systemClock)
    hold('long', { leaseMs: 60 * second })
    await vi.advanceTimersByTimeAsync(20 * second)
    expect(beats).toEqual([['long']])
    const short = hold('short', { leaseMs: 3 * second })
    await vi.advanceTimersByTimeAsync(10 * second)
    expect(short.signal.aborted).toBe(false)
  })

  test('does not stop the watch over time', async () => {
    vi.useFakeTimers()
    const { hold, events } = setup(hang, systemClock)
    const doubtful = hold('doubtful')
    const long = hold('long', { leaseMs: 600 * second, maxRunMs: 40 * second })
    await vi.advanceTimersByTimeAsync(60 * second)
    expect(doubtful.signal.reason).toMatchObject({ code: 'lease_lost' })
    expect(long.signal.reason).toMatchObject({ code: 'max_run_exceeded' })
    expect(events).toContainEqual({ key: 'doubtful', type: 'lease-in-doubt' })
  })
})
