import { describe, expect, test } from 'vitest'
import { OncekeyError, reply } from '../../src/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { isReplay, problemOf } from './seen.js'
import { everywhere, gated, leaseMs, type ProfileName, setup, type Work } from './setup.js'

const database = useDatabase()

const key = 'k'
const body = '{"amount":100}'

const profiles = ['ietf', 'stripe'] as const

/** Goes wrong the first time only, so that a second run would be seen. */
const once = (fail: () => ReturnType<Work>): Work => {
  return (n) => (n === 1 ? fail() : reply(201, { order: n }))
}

describe.each(profiles)('an opaque handler in the %s profile that throws', (profile) => {
  const boom = new Error('boom')
  const throwing = once(() => {
    throw boom
  })

  test("D6 'rerun': the error comes out as it is, and a retry runs it", async () => {
    const { handler } = await setup(database, profile)
    const { send, runs } = handler({ afterFailure: 'rerun' }, throwing)
    await expect(send({ key, body })).rejects.toBe(boom)
    expect((await send({ key, body })).json).toEqual({ order: 2 })
    expect(isReplay(await send({ key, body }))).toBe(true)
    expect(runs()).toBe(2)
  })

  test("D6 'store': the error comes out as it is, and its retries replay a problem in the dialect of the route, n=1", async () => {
    const { handler } = await setup(database, profile)
    const { send, runs } = handler({ afterFailure: 'store' }, throwing)
    await expect(send({ key, body })).rejects.toBe(boom)
    for (const retry of [await send({ key, body }), await send({ key, body })]) {
      expect(problemOf(retry)).toEqual({ status: 500, code: 'work_failed' })
      expect(retry.header('content-type')).toBe(profile === 'ietf' ? 'application/problem+json' : 'application/json')
      if (profile === 'stripe') expect(retry.json.error).toMatchObject({ type: 'api_error', code: 'work_failed' })
      expect(isReplay(retry)).toBe(true)
      expect(retry.text).not.toContain('boom')
    }
    expect(runs()).toBe(1)
  })

  test("D6 'park': the error comes out as it is, and its retries are told that the outcome is unknown, n=1", async () => {
    const { handler } = await setup(database, profile)
    const { send, runs } = handler({ afterFailure: 'park' }, throwing)
    await expect(send({ key, body })).rejects.toBe(boom)
    for (const retry of [await send({ key, body }), await send({ key, body })]) {
      expect(problemOf(retry)).toEqual({ status: 500, code: 'outcome_unknown' })
      expect(isReplay(retry)).toBe(false)
      expect(retry.text).not.toContain('boom')
    }
    expect(problemOf(await send({ key, body: '{}' })).code).toBe('key_reused')
    expect(runs()).toBe(1)
  })

  test.each(['key_invalid', 'store_unavailable', 'lease_lost'] as const)(
    'D6 an error of ours that the handler met elsewhere (%s) is its own, too',
    async (code) => {
      const { handler } = await setup(database, profile)
      const nested = new OncekeyError(code, 'from a call of its own')
      const { send } = handler(
        {},
        once(() => {
          throw nested
        }),
      )
      await expect(send({ key, body })).rejects.toBe(nested)
    },
  )
})

describe.each(profiles)('an opaque handler in the %s profile that answers 503', (profile) => {
  const failing = once(() => reply(503, { try: 'later' }, { 'retry-after': '7' }))

  async function first(afterFailure: 'rerun' | 'store' | 'park') {
    const { handler } = await setup(database, profile)
    const { send, runs } = handler({ afterFailure }, failing)
    const answer = await send({ key, body })
    expect({ status: answer.status, json: answer.json, retryAfter: answer.header('retry-after') }).toEqual({
      status: 503,
      json: { try: 'later' },
      retryAfter: '7',
    })
    expect(isReplay(answer)).toBe(false)
    return { send, runs }
  }

  test("D6 'rerun': the client gets it, and a retry runs it", async () => {
    const { send, runs } = await first('rerun')
    expect((await send({ key, body })).json).toEqual({ order: 2 })
    expect(runs()).toBe(2)
  })

  test("D6 'store': the client gets it, and so do its retries, n=1", async () => {
    const { send, runs } = await first('store')
    const retry = await send({ key, body })
    expect({ status: retry.status, json: retry.json }).toEqual({ status: 503, json: { try: 'later' } })
    expect(isReplay(retry)).toBe(true)
    expect(runs()).toBe(1)
  })

  test("D6 'park': the client gets it, and its retries are told that the outcome is unknown, n=1", async () => {
    const { send, runs } = await first('park')
    expect(problemOf(await send({ key, body }))).toEqual({ status: 500, code: 'outcome_unknown' })
    expect(runs()).toBe(1)
  })

  test.each(['rerun', 'store', 'park'] as const)("D6 a 499 is no failure: it is stored under '%s', too", async (afterFailure) => {
    const { handler } = await setup(database, profile)
    const { send, runs } = handler({ afterFailure }, (n) => reply(499, { n }))
    await send({ key, body })
    expect((await send({ key, body })).json).toEqual({ n: 1 })
    expect(runs()).toBe(1)
  })
})

describe.each(profiles)('an opaque handler in the %s profile that loses its lease', (profile) => {
  async function lost(afterFailure: 'rerun' | 'store' | 'park') {
    const { handler, advance } = await setup(database, profile)
    const { work, arrived, open } = gated((n) => reply(201, { order: n }))
    const { send, runs } = handler({ afterFailure }, (n, run) => (n === 1 ? work(n, run) : reply(201, { order: n })))
    const slow = send({ key, body })
    await arrived
    await advance(leaseMs)
    const other = await send({ key, body })
    open()
    return { slow: await slow, other, retry: await send({ key, body }), runs }
  }

  test("D6 'rerun': the next request runs it, and the one that lost is told to ask again", async () => {
    const { slow, other, retry, runs } = await lost('rerun')
    expect(other.json).toEqual({ order: 2 })
    expect(problemOf(slow)).toEqual({ status: 503, code: 'interrupted' })
    expect(Number(slow.header('retry-after'))).toBeGreaterThanOrEqual(1)
    expect(retry.json).toEqual({ order: 2 })
    expect(isReplay(retry)).toBe(true)
    expect(runs()).toBe(2)
  })

  test.each([
    ['store', true],
    ['park', false],
  ] as const)("D6 '%s': the outcome is unknown, n=1", async (afterFailure, marked) => {
    const { slow, other, retry, runs } = await lost(afterFailure)
    for (const answer of [other, retry]) {
      expect(problemOf(answer)).toEqual({ status: 500, code: 'outcome_unknown' })
      expect(isReplay(answer)).toBe(marked)
    }
    expect(problemOf(slow)).toEqual({ status: 503, code: 'interrupted' })
    expect(runs()).toBe(1)
  })
})

describe.each(profiles)('an operation in the %s profile', (profile) => {
  /** One phase, then the rest. */
  async function withPhase(end: Work) {
    const bundle = await setup(database, profile)
    let phases = 0
    const target = bundle.operation({}, async (n, run) => {
      await run?.phase('ordered', () => {
        phases += 1
      })
      return end(n, run)
    })
    return { ...bundle, ...target, phases: () => phases }
  }

  test('O2 throws: not stored, released at its recovery point, and a retry resumes. stripe: stored and replayed', async () => {
    const boom = new Error('boom')
    const throwing = once(() => {
      throw boom
    })
    const { send, runs, phases } = await withPhase(throwing)
    await expect(send({ key, body })).rejects.toBe(boom)
    const retry = await send({ key, body })
    if (profile === 'stripe') {
      expect(problemOf(retry)).toEqual({ status: 500, code: 'work_failed' })
      expect(retry.json.error.type).toBe('api_error')
      expect(isReplay(retry)).toBe(true)
      expect(retry.header('original-request')).toMatch(/^req_/)
    } else expect(retry.json).toEqual({ order: 2 })
    expect({ runs: runs(), phases: phases() }).toEqual({ runs: profile === 'stripe' ? 1 : 2, phases: 1 })
  })

  test('O2 returns a 5xx: that is its answer, stored and replayed', async () => {
    const { send, runs } = await withPhase(once(() => reply(503, { error: 'the bank is closed' })))
    const [first, second] = [await send({ key, body }), await send({ key, body })]
    expect([first, second].map(({ status, json }) => [status, json.error])).toEqual([
      [503, 'the bank is closed'],
      [503, 'the bank is closed'],
    ])
    expect(isReplay(second)).toBe(true)
    expect(runs()).toBe(1)
  })

  test('is parked: the outcome is unknown for the first and for every retry; a word of a person lets it go on', async () => {
    const { send, runs, once: service, caller, keys } = await parking(profile)
    for (const answer of [await send({ key, body }), await send({ key, body })]) {
      expect(problemOf(answer)).toEqual({ status: 500, code: 'outcome_unknown' })
      expect(answer.header('content-type')).toBe(profile === 'ietf' ? 'application/problem+json' : 'application/json')
      expect(isReplay(answer)).toBe(false)
      expect(answer.text).not.toContain('reset')
    }
    expect(problemOf(await send({ key, body: '{}' })).code).toBe('key_reused')
    expect({ runs: runs(), keys: await keys() }).toEqual({ runs: 1, keys: 1 })
    await service.resolve({ tenant: caller, scope: 'pay', key: 'k' }, { as: 'happened', result: 'charge-1' })
    expect((await send({ key, body })).json).toEqual({ charge: 'charge-1' })
    expect(runs()).toBe(2)
  })

  test.each([
    ['in words of their own', { said: 'by a person' }, 'application/problem+json'],
    ['in words that look like ours', { type: 'urn:oncekey:problem:work_failed', said: 'by a person' }, 'application/json'],
  ])('is ended by a person %s: every retry replays what they said, as they said it', async (_, words, type) => {
    const { send, runs, once: service, caller } = await parking(profile)
    await send({ key, body })
    await service.resolve({ tenant: caller, scope: 'pay', key: 'k' }, { as: 'failed', reply: reply(402, words, { 'content-type': type }) })
    const retry = await send({ key, body })
    expect({ status: retry.status, json: retry.json, marked: isReplay(retry) }).toEqual({ status: 402, json: words, marked: true })
    expect(runs()).toBe(1)
  })
})

/** An operation whose one call fails with an unknown outcome, and may not be made twice. */
async function parking(profile: ProfileName) {
  const bundle = await setup(database, profile)
  const target = bundle.operation(
    {},
    async (_, run) => {
      const charge = await run?.call(
        'charge',
        () => {
          throw new Error('connection reset')
        },
        { whenUnknown: 'park' },
      )
      return reply(201, { charge })
    },
    { name: 'pay' },
  )
  return { ...bundle, ...target }
}

describe.each(everywhere)('an answer of %s() in the %s profile that cannot be stored at all', (surface, profile) => {
  test.each([
    ['no answer', undefined],
    ['a status that is none', { status: 700, headers: [], body: new Uint8Array() }],
    ['a header that cannot be sent', { status: 200, headers: [['x', 'a\nb']], body: new Uint8Array() }],
  ])('%s is an error of the service, and no wedge', async (_, answer) => {
    const { on } = await setup(database, profile)
    const { send, runs } = on(
      surface,
      {},
      once(() => answer as never),
    )
    await expect(send({ key, body })).rejects.toMatchObject({ code: 'answer_invalid' })
    const { status } = await send({ key, body })
    expect(status).toBe(surface === 'serve' && profile === 'stripe' ? 500 : 201)
    expect(runs()).toBe(surface === 'serve' && profile === 'stripe' ? 1 : 2)
  })
})
