import { describe, expect, test } from 'vitest'
import { reply } from '../../src/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { isReplay, problemOf } from './seen.js'
import { everywhere, gated, leaseMs, setup, type Target } from './setup.js'

const database = useDatabase()

const key = 'k'
const body = '{"amount":100}'

/** Sends that many at once, and opens the gate when all but one have their answer. */
async function allAtOnce({ send }: Target, count: number, open: () => void) {
  let answered = 0
  const answers = Array.from({ length: count }, async () => {
    const answer = await send({ key, body })
    answered += 1
    return answer
  })
  await waitUntil('all but one are answered', () => answered === count - 1)
  open()
  return Promise.all(answers)
}

describe.each(everywhere)('concurrent requests to %s() in the %s profile', (surface, profile) => {
  test.each([2, 10, 100])('C1 %i at once: n=1, and the rest 409', async (count) => {
    const { on } = await setup(database, profile)
    const { work, open } = gated()
    const target = on(surface, {}, work)
    const answers = await allAtOnce(target, count, open)
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1)
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(count - 1)
    expect(target.runs()).toBe(1)
  })

  test.each([2, 10, 100])("C1 %i at once with whenInProgress: 'accepted': n=1, and the rest 202 with Retry-After", async (count) => {
    const { on } = await setup(database, profile)
    const { work, open } = gated()
    const target = on(surface, { whenInProgress: 'accepted' }, work)
    const answers = await allAtOnce(target, count, open)
    const accepted = answers.filter(({ status }) => status === 202)
    expect(accepted).toHaveLength(count - 1)
    expect(new Set(accepted.map(({ text }) => text))).toEqual(new Set(['{"status":"processing"}']))
    for (const { header } of accepted) expect(Number(header('retry-after'))).toBeGreaterThanOrEqual(1)
    for (const { header } of answers) expect(header('request-id') !== undefined).toBe(profile === 'stripe')
    expect(accepted.some(isReplay)).toBe(false)
    expect(target.runs()).toBe(1)
    expect(isReplay(await target.send({ key, body }))).toBe(true)
  })

  test.each([2, 10, 100])("C1 %i at once with whenInProgress: 'wait': n=1, and the rest replay the same bytes", async (count) => {
    const { on } = await setup(database, profile)
    const { work, arrived, open } = gated()
    const { send, runs } = on(surface, { whenInProgress: 'wait', wait: '5m' }, work)
    const answers = Array.from({ length: count }, () => send({ key, body }))
    await arrived
    open()
    const all = await Promise.all(answers)
    expect(new Set(all.map(({ status, text }) => `${status} ${text}`))).toEqual(new Set(['201 {"order":1}']))
    expect(all.filter(isReplay)).toHaveLength(count - 1)
    expect(runs()).toBe(1)
  })

  test("C1 'wait' ends in 409 when it takes too long", async () => {
    const { on } = await setup(database, profile)
    const { work, arrived, open } = gated()
    const { send, runs } = on(surface, { whenInProgress: 'wait', wait: '50ms' }, work)
    const first = send({ key, body })
    await arrived
    expect(problemOf(await send({ key, body }))).toEqual({ status: 409, code: 'key_in_use' })
    open()
    expect((await first).status).toBe(201)
    expect(runs()).toBe(1)
  })

  test("C1 'wait' is told at once of another body", async () => {
    const { on } = await setup(database, profile)
    const { work, arrived, open } = gated()
    const { send } = on(surface, { whenInProgress: 'wait', wait: '5m' }, work)
    const first = send({ key, body })
    await arrived
    expect(problemOf(await send({ key, body: '{"amount":7}' })).code).toBe('key_reused')
    open()
    await first
  })

  test('C2 the 409 has a Retry-After from the lease that is left, of at least 1, and is not stored', async () => {
    const { on, advance } = await setup(database, profile)
    const { work, arrived, open } = gated()
    const { send, runs } = on(surface, {}, work)
    const first = send({ key, body })
    await arrived
    const conflict = await send({ key, body })
    expect(conflict.status).toBe(409)
    if (profile === 'stripe') {
      expect(conflict.json.error).toMatchObject({ type: 'invalid_request_error', code: 'idempotency_key_in_use' })
    } else expect(conflict.json).toMatchObject({ code: 'key_in_use', status: 409 })
    expect(isReplay(conflict)).toBe(false)

    // Minutes are what the machine may take; the lease has ten.
    const full = Number(conflict.header('retry-after'))
    expect(full).toBeGreaterThan(300)
    expect(full).toBeLessThanOrEqual(leaseMs / 1000)
    await advance(leaseMs / 2)
    const half = Number((await send({ key, body })).header('retry-after'))
    expect(half).toBeGreaterThanOrEqual(1)
    expect(half).toBeLessThanOrEqual(leaseMs / 2000)

    open()
    expect((await first).status).toBe(201)
    const replay = await send({ key, body })
    expect({ status: replay.status, json: replay.json, marked: isReplay(replay) }).toEqual({
      status: 201,
      json: { order: 1 },
      marked: true,
    })
    expect(replay.header('retry-after')).toBeUndefined()
    expect(runs()).toBe(1)
  })

  test('C2 the Retry-After is never 0, also where no lease is left', async () => {
    const { on, caller } = await setup(database, profile)
    const { work, arrived, open } = gated()
    const { send } = on(surface, {}, work)
    const first = send({ key, body })
    await arrived
    // A key that only workers carry out, and none has it.
    await database.pool.query(
      `update oncekey.keys set state = 'pending', waiting = true, locked_until = null, async = true where tenant = $1`,
      [caller],
    )
    expect((await send({ key, body })).header('retry-after')).toBe('1')
    open()
    await first
  })
})

describe.each(['ietf', 'stripe'] as const)('a route of idempotency() in the %s profile', (profile) => {
  test('C2 has a lease of its own, and its Retry-After', async () => {
    const { handler } = await setup(database, profile)
    const { work, arrived, open } = gated()
    const { send } = handler({ lease: '10h' }, work)
    const first = send({ key, body })
    await arrived
    const retryAfter = Number((await send({ key, body })).header('retry-after'))
    expect(retryAfter).toBeGreaterThan(9 * 3_600)
    expect(retryAfter).toBeLessThanOrEqual(10 * 3_600)
    open()
    await first
  })
})

describe.each(['ietf', 'stripe'] as const)('concurrent requests to local work in the %s profile', (profile) => {
  test.each([2, 10, 100])('C1 %i at once: n=1, and the rest replay the same bytes', async (count) => {
    const { local } = await setup(database, profile)
    const { send, runs } = local({}, (n) => reply(201, { order: n }))
    const all = await Promise.all(Array.from({ length: count }, () => send({ key, body })))
    expect(new Set(all.map(({ status, text }) => `${status} ${text}`))).toEqual(new Set(['201 {"order":1}']))
    expect(all.filter(isReplay)).toHaveLength(count - 1)
    expect(runs()).toBe(1)
  })
})
