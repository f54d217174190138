import { describe, expect, test } from 'vitest'
import { retention } from '../../src/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { isReplay, problemOf } from './seen.js'
import { everywhere, gated, setup } from './setup.js'

const database = useDatabase()

const key = 'k'
const body = '{"amount":100}'
const hour = 3_600_000

describe.each(everywhere)('retention of %s() in the %s profile', (surface, profile) => {
  test('E1 within 24 h a replay, after them a new request: n=2, and another body is fine', async () => {
    const { on, advance } = await setup(database, profile)
    const { send, runs } = on(surface)
    const first = await send({ key, body })
    await advance(23 * hour)
    expect(isReplay(await send({ key, body }))).toBe(true)
    await advance(hour)
    const later = await send({ key, body: '{"amount":7}' })
    expect({ status: later.status, json: later.json, marked: isReplay(later) }).toEqual({ status: 201, json: { order: 2 }, marked: false })
    if (profile === 'stripe') expect(later.header('request-id')).not.toBe(first.header('request-id'))
    expect(isReplay(await send({ key, body: '{"amount":7}' }))).toBe(true)
    expect(problemOf(await send({ key, body })).code).toBe('key_reused')
    expect(runs()).toBe(2)
  })

  test('E1 a reaped key is a new request too', async () => {
    const { on, advance, store } = await setup(database, profile)
    const { send, runs } = on(surface)
    await send({ key, body })
    await advance(25 * hour)
    expect(await store.keyReap({ limit: 1_000 })).toBeGreaterThan(0)
    expect(isReplay(await send({ key, body: '{"amount":7}' }))).toBe(false)
    expect(runs()).toBe(2)
  })

  test('E2 work that is longer than its retention is still in progress, is not reaped, and its answer is kept', async () => {
    const { handler, operation, advance, store, keys } = await setup(database, profile)
    const { work, arrived, open } = gated()
    const short = { retention: '1m', retentionFloor: '1m' } as const
    const { send, runs } = surface === 'serve' ? operation({}, work, short) : handler(short, work)
    const first = send({ key, body })
    await arrived
    await advance(2 * 60_000)
    await store.keyReap({ limit: 1_000 })
    expect(await keys()).toBe(1)
    expect(problemOf(await send({ key, body }))).toEqual({ status: 409, code: 'key_in_use' })
    open()
    expect((await first).status).toBe(201)
    expect(isReplay(await send({ key, body }))).toBe(true)
    await advance(61_000)
    await send({ key, body })
    expect(runs()).toBe(2)
  })
})

describe.each(['ietf', 'stripe'] as const)('retention of each route of idempotency() in the %s profile', (profile) => {
  test('E1 each route has its own', async () => {
    const { handler, advance } = await setup(database, profile)
    const signup = handler({ scope: { name: 'signup' }, retention: retention.signup })
    const webhook = handler({ scope: { name: 'webhook' }, retention: retention.webhook })
    const ledger = handler({ scope: { name: 'ledger' }, retention: retention.ledger })
    const standard = handler({ scope: { name: 'standard' } })
    const all = [signup, webhook, ledger, standard]
    const runs = async (ms: number) => {
      await advance(ms)
      for (const { send } of all) await send({ key, body })
      return all.map((target) => target.runs())
    }
    expect(await runs(0)).toEqual([1, 1, 1, 1])
    expect(await runs(2 * hour)).toEqual([2, 1, 1, 1])
    expect(await runs(24 * hour)).toEqual([3, 1, 1, 2])
    expect(await runs(7 * 24 * hour)).toEqual([4, 2, 1, 3])
  })

  test('E1 a service may have a default of its own, and a route another', async () => {
    const { handler, advance } = await setup(database, profile, { retention: '48h' })
    const standard = handler({ scope: { name: 'standard' } })
    const short = handler({ scope: { name: 'short' }, retention: '2h' })
    for (const { send } of [standard, short]) await send({ key, body })
    await advance(25 * hour)
    for (const { send } of [standard, short]) await send({ key, body })
    expect([standard.runs(), short.runs()]).toEqual([1, 2])
  })

  test('E2 the answer of very long work is kept for the retentionFloor of its route', async () => {
    const { handler, advance } = await setup(database, profile)
    const { work, arrived, open } = gated()
    const { send, runs } = handler({ lease: '1d', retention: '2h', retentionFloor: '30m' }, work)
    const first = send({ key, body })
    await arrived
    await advance(4 * hour)
    open()
    await first
    await advance(hour / 3)
    expect(isReplay(await send({ key, body }))).toBe(true)
    await advance(hour / 3)
    expect(isReplay(await send({ key, body }))).toBe(false)
    expect(runs()).toBe(2)
  })
})
