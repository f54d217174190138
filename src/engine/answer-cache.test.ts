import { describe, expect, test } from 'vitest'
import { reply } from '../core/answer.js'
import { createFingerprinter } from '../core/fingerprint/fingerprint.js'
import type { KeyClaim, Verdict } from '../core/store.js'
import { createOnce } from '../create-once.js'
import { memoryStore } from '../stores/memory/index.js'
import { manualClock } from '../testing/manual-clock.js'
import { aClaim } from '../testing/store-cases/store-case.js'
import { AnswerCache } from './answer-cache.js'

type Replay = Extract<Verdict, { kind: 'replay' }>

const replayOf = (body: string, expiresInMs = 1_000): Replay => ({
  ...{ kind: 'replay', state: 'complete', incarnation: 'a life', expiresInMs },
  answer: reply(200, body),
})

function setup(maxBytes = 1_000_000) {
  const clock = manualClock()
  const cache = new AnswerCache(clock, maxBytes)
  const bodyOf = (claim: KeyClaim) => {
    const found = cache.find(claim)
    return found?.kind === 'replay' ? JSON.parse(Buffer.from(found.answer.body).toString()) : found?.kind
  }
  return { clock, cache, bodyOf, remember: (claim: KeyClaim, replay: Replay) => cache.remember(claim, replay, clock.monotonic()) }
}

describe('an answer', () => {
  test('is told again until the record ends, counted from when the store was asked', () => {
    const { clock, cache, bodyOf } = setup()
    const claim = aClaim()
    const sentAt = clock.monotonic()
    clock.advance(400)
    cache.remember(claim, replayOf('paid'), sentAt)
    clock.advance(599)
    expect(bodyOf(claim)).toBe('paid')
    clock.advance(1)
    expect(bodyOf(claim)).toBeUndefined()
    expect(bodyOf(claim)).toBeUndefined()
  })

  test('has headers of its own for each who is told', () => {
    const { cache, remember } = setup()
    const claim = aClaim()
    remember(claim, replayOf('paid'))
    const told = () => {
      const found = cache.find(claim)
      return found?.kind === 'replay' ? (found.answer.headers as [string, string][]) : []
    }
    const first = told()
    const before = structuredClone(first)
    for (const pair of first) pair[1] = 'changed'
    first.push(['x-more', 'yes'])
    expect(told()).toEqual(before)
  })

  test('of a key that is kept for ever is told for ever', () => {
    const { clock, bodyOf, remember } = setup()
    const claim = aClaim()
    remember(claim, replayOf('paid', Number.POSITIVE_INFINITY))
    clock.advance(10 ** 12)
    expect(bodyOf(claim)).toBe('paid')
  })

  test('is told to nobody who asks something else, nor for another tenant, scope or key', () => {
    const { bodyOf, remember } = setup()
    const claim = aClaim()
    remember(claim, replayOf('paid'))
    const other = createFingerprinter()({ value: 'something else' })
    expect(bodyOf({ ...claim, fingerprint: other })).toBe('mismatch')
    for (const changes of [{ tenant: 'other' }, { scope: 'other' }, { key: 'other' }])
      expect(bodyOf({ ...claim, ...changes })).toBeUndefined()
  })

  test('that was compared with nothing is not told to one who compares', () => {
    const { bodyOf, remember } = setup()
    const claim = aClaim()
    remember({ ...claim, fingerprint: null }, replayOf('paid'))
    expect(bodyOf(claim)).toBeUndefined()
    expect(bodyOf({ ...claim, fingerprint: null })).toBe('paid')
  })

  test('cannot be changed by those who were told', () => {
    const { cache, bodyOf, remember } = setup()
    const claim = aClaim()
    const given = replayOf('paid')
    remember(claim, given)
    given.answer.body.fill(0)
    const found = cache.find(claim)
    if (found?.kind === 'replay') found.answer.body.fill(0)
    expect(bodyOf(claim)).toBe('paid')
  })

  test('of a new life takes the place of the old one', () => {
    const { bodyOf, remember } = setup()
    const claim = aClaim()
    remember(claim, replayOf('old'))
    remember(claim, replayOf('new'))
    expect(bodyOf(claim)).toBe('new')
  })
})

test('forgets what nobody has asked for since it was kept, and never holds more than it may', () => {
  const { bodyOf, remember } = setup(5_000)
  const claims = Array.from({ length: 5 }, () => aClaim())
  const [first, second, ...rest] = claims as [KeyClaim, KeyClaim, ...KeyClaim[]]
  remember(first, replayOf('x'.repeat(500)))
  remember(second, replayOf('x'.repeat(500)))
  expect(bodyOf(first)).toBeDefined()
  for (const claim of rest) remember(claim, replayOf('x'.repeat(500)))
  const known = claims.map((claim) => bodyOf(claim) !== undefined)
  expect(known).toEqual([true, false, false, true, true])
})

test('keeps no answer that would fill half of it', () => {
  const { bodyOf, remember } = setup(4_000)
  const claim = aClaim()
  remember(claim, replayOf('x'.repeat(2_000)))
  expect(bodyOf(claim)).toBeUndefined()
})

describe('createOnce({ answerCache })', () => {
  const request = { tenant: 't', scope: 's', key: 'k', fingerprint: { value: 1 }, afterFailure: 'rerun' } as const

  function service(answerCache?: { maxBytes: number }) {
    const clock = manualClock()
    const store = memoryStore({ clock })
    let asked = 0
    const keyClaim = (claim: KeyClaim) => {
      asked += 1
      return store.keyClaim(claim)
    }
    const once = createOnce({ store: { ...store, keyClaim }, clock, retention: '1h', ...(answerCache ? { answerCache } : {}) })
    let runs = 0
    const send = (value = 1) =>
      once.execute({ ...request, fingerprint: { value } }, () => {
        runs += 1
        return reply(201, { runs })
      })
    return { clock, send, asked: () => asked, runs: () => runs }
  }

  test('answers those who come in one turn of the event loop together, at its end', async () => {
    const { send } = service({ maxBytes: 100_000 })
    await send()
    await send()
    const order: string[] = []
    setImmediate(() => order.push('the turn is over'))
    await Promise.all([send(), send()].map((sent) => sent.then(({ kind }) => order.push(kind))))
    expect(order).toEqual(['the turn is over', 'replayed', 'replayed'])
  })

  test('asks the store for the first replay only', async () => {
    const { send, asked, runs } = service({ maxBytes: 100_000 })
    const kinds = [await send(), await send(), await send(), await send()].map(({ kind }) => kind)
    expect([kinds, asked(), runs()]).toEqual([['executed', 'replayed', 'replayed', 'replayed'], 2, 1])
    expect((await send(2)).kind).toBe('mismatch')
    expect(asked()).toBe(2)
  })

  test('never past the retention', async () => {
    const { clock, send, runs } = service({ maxBytes: 100_000 })
    await send()
    await send()
    clock.advance(3_600_000)
    expect((await send()).kind).toBe('executed')
    expect(runs()).toBe(2)
    expect((await send()).kind).toBe('replayed')
  })

  test('without it each replay is read from the store', async () => {
    const { send, asked } = service()
    for (let count = 0; count < 4; count += 1) await send()
    expect(asked()).toBe(4)
  })

  test.each([0, -1, 1.5, '1mb'])('maxBytes: %s is an error at once', (maxBytes) => {
    expect(() => createOnce({ store: memoryStore(), answerCache: { maxBytes: maxBytes as number } })).toThrow(/answerCache.maxBytes/)
  })
})
