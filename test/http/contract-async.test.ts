import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { keyId, reply } from '../../src/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { isReplay, problemOf, type Seen } from './seen.js'
import { gated, leaseMs, type ProfileName, setup } from './setup.js'

const database = useDatabase()

const key = 'k'
const body = '{"amount":100}'
const hour = 3_600_000

const leaseSeconds = leaseMs / 1000
/** All headers but those that are another one for each answer. */
const steady = ({ headers }: Seen) => headers.filter(([name]) => name !== 'request-id')

describe.each<ProfileName>(['ietf', 'stripe'])("serve() with respond: 'async' in the %s profile", (profile) => {
  test('answers 202 with Location, Retry-After and the state, and runs nothing', async () => {
    const { accepting, keys, caller, events } = await setup(database, profile)
    const { send, runs, operation } = accepting()
    const first = await send({ key, body })
    const id = keyId({ tenant: caller, scope: operation.name, key: 'k' })
    expect({ status: first.status, json: first.json }).toEqual({ status: 202, json: { id, state: 'pending' } })
    expect(steady(first)).toEqual([
      ['location', `/operations/${id}`],
      ['retry-after', '1'],
      ['content-type', 'application/json'],
    ])
    expect({ runs: runs(), keys: await keys(), events }).toEqual({ runs: 0, keys: 1, events: ['enqueued'] })
  })

  test('tells duplicates the same while it waits, and how long the lease is while it is worked on', async () => {
    const { accepting, keys } = await setup(database, profile)
    const { work, arrived, open } = gated()
    const { send, carryOut, runs } = accepting({}, work)
    const first = await send({ key, body })
    const waiting = await send({ key, body })
    expect({ ...waiting, headers: steady(waiting) }).toEqual({ ...first, headers: steady(first), header: expect.any(Function) })
    const attempt = carryOut()
    await arrived
    const during = await send({ key, body })
    expect({ status: during.status, json: during.json }).toEqual({ status: 202, json: { ...first.json, state: 'processing' } })
    expect(during.header('location')).toBe(first.header('location'))
    expect(Number(during.header('retry-after'))).toBeGreaterThan(leaseSeconds - 60)
    expect(Number(during.header('retry-after'))).toBeLessThanOrEqual(leaseSeconds)
    open()
    await attempt
    expect({ runs: runs(), keys: await keys() }).toEqual({ runs: 1, keys: 1 })
  })

  test('R1, R3 replays the answer to a retry once there is one, byte for byte', async () => {
    const { accepting } = await setup(database, profile)
    const bytes = Uint8Array.of(0, 255, 10, 195)
    const { send, carryOut, look, runs } = accepting({}, () => reply(201, bytes, { 'content-type': 'image/png', location: '/orders/1' }))
    const location = (await send({ key, body })).header('location')
    await carryOut()
    for (const answer of [await send({ key, body }), await look(location)]) {
      expect({ status: answer.status, bytes: answer.bytes, marked: isReplay(answer) }).toEqual({
        status: 201,
        bytes: [...bytes],
        marked: true,
      })
      expect([answer.header('content-type'), answer.header('location')]).toEqual(['image/png', '/orders/1'])
    }
    expect(runs()).toBe(1)
  })

  test('F1, F3 refuses another body while it waits and when it is done, and the original one is as before', async () => {
    const { accepting } = await setup(database, profile)
    const { send, carryOut } = accepting()
    const mismatch = { status: profile === 'stripe' ? 400 : 422, code: 'key_reused' }
    await send({ key, body })
    expect(problemOf(await send({ key, body: '{"amount":7}' }))).toEqual(mismatch)
    expect((await send({ key, body })).status).toBe(202)
    await carryOut()
    expect(problemOf(await send({ key, body: '{"amount":7}' }))).toEqual(mismatch)
    expect((await send({ key, body })).status).toBe(201)
  })

  test('O4 input that does not fit is refused where the key is not known, and is not kept; the corrected one is accepted', async () => {
    const { accepting, keys, newOnce } = await setup(database, profile)
    const lax = accepting({}, undefined, { name: 'pay', input: z.object({ amount: z.number() }) })
    expect(problemOf(await lax.send({ key, body: '{"amount":"much"}' }))).toEqual({ status: 400, code: 'input_invalid' })
    expect(problemOf(await lax.send({ key, body: '{"amount":' }))).toEqual({ status: 400, code: 'input_invalid' })
    expect(await keys()).toBe(0)
    const accepted = await lax.send({ key, body })
    expect(accepted.status).toBe(202)
    // A deploy later the schema is tighter: what was accepted stays so.
    const strict = accepting({}, undefined, { on: newOnce(), name: 'pay', input: z.object({ amount: z.number().max(10) }) })
    const again = await strict.send({ key, body })
    expect([again.status, again.header('location')]).toEqual([202, accepted.header('location')])
    await lax.carryOut()
    expect(isReplay(await strict.send({ key, body }))).toBe(true)
    expect(problemOf(await strict.send({ key: '"other"', body })).code).toBe('input_invalid')
  })

  test('K6, K7 a key is required as ever, and a malformed one is refused', async () => {
    const { accepting, keys } = await setup(database, profile)
    const { send } = accepting({ required: true })
    expect(problemOf(await send({ body })).code).toBe('key_missing')
    expect(problemOf(await send({ key: '', body })).code).toBe('key_invalid')
    expect(await keys()).toBe(0)
  })

  test('K6 without a key, where that is allowed, each request is one of its own', async () => {
    const { accepting } = await setup(database, profile)
    const { send, look } = accepting({ required: false })
    const [one, two] = [await send({ body }), await send({ body })]
    expect(one.header('location')).not.toBe(two.header('location'))
    expect([(await look(one.header('location'))).status, (await look(two.header('location'))).status]).toEqual([200, 200])
  })

  test('an operation that makes its key accepts the same input once', async () => {
    const { accepting, keys } = await setup(database, profile)
    const input = z.object({ amount: z.number() })
    const { send, carryOut } = accepting({}, undefined, { input, key: ({ amount }) => `amount-${amount}` })
    const [one, two] = [await send({ body }), await send({ body })]
    expect([one.status, two.status, two.header('location')]).toEqual([202, 202, one.header('location')])
    expect(await keys()).toBe(1)
    await carryOut('amount-100')
    expect((await send({ body })).status).toBe(201)
  })

  test('T1 two tenants with one key have an operation each, and neither sees that of the other', async () => {
    const { accepting } = await setup(database, profile)
    const { send, look } = accepting()
    const others = `tenant-${crypto.randomUUID()}`
    const [mine, theirs] = [await send({ key, body }), await send({ key, body, caller: others })]
    expect(mine.json.id).not.toBe(theirs.json.id)
    expect(problemOf(await look(theirs.header('location')))).toEqual({ status: 404, code: 'operation_unknown' })
    expect(problemOf(await look(mine.header('location'), { caller: others }))).toEqual({ status: 404, code: 'operation_unknown' })
    expect((await look(theirs.header('location'), { caller: others })).status).toBe(200)
  })

  test('E1 after retention the same key is accepted anew', async () => {
    const { accepting, advance } = await setup(database, profile)
    const { send, carryOut, runs, look } = accepting()
    const location = (await send({ key, body })).header('location')
    await carryOut()
    await advance(25 * hour)
    const anew = await send({ key, body: '{"amount":7}' })
    expect([anew.status, anew.json.state, anew.header('location')]).toEqual([202, 'pending', location])
    expect((await look(location)).json.state).toBe('pending')
    await carryOut()
    expect([(await look(location)).json, runs()]).toEqual([{ order: 2 }, 2])
  })

  test('pollAfter is what Retry-After says, in whole seconds; location is given the request', async () => {
    const { accepting } = await setup(database, profile)
    const location = (id: string, { caller }: { caller: string }) => `https://api.example.com/${caller}/${id}`
    const { send, look } = accepting({ pollAfter: '1500ms', location }, undefined, {}, { pollAfter: '90s' })
    const answer = await send({ key, body })
    expect(answer.header('retry-after')).toBe('2')
    expect(answer.header('location')).toMatch(new RegExp(`^https://api.example.com/tenant-.*/${answer.json.id}$`))
    expect((await look(`/${answer.json.id}`)).header('retry-after')).toBe('90')
  })

  test('a request to another route that answers when it is done finds it in progress, whatever that says', async () => {
    const { accepting, newOnce, operation } = await setup(database, profile)
    const { send, carryOut } = accepting({}, undefined, { name: 'pay' })
    await send({ key, body })
    const other = operation({}, undefined, { name: 'pay', on: newOnce() })
    expect(problemOf(await other.send({ key, body }))).toEqual({ status: 409, code: 'key_in_use' })
    await carryOut()
    expect(isReplay(await other.send({ key, body }))).toBe(true)
    expect(other.runs()).toBe(0)
  })

  test('a key that a waiting client works on is told with the same 202, and can be looked at', async () => {
    const { accepting, newOnce, operation } = await setup(database, profile)
    const { work, arrived, open } = gated()
    const waited = operation({}, work, { name: 'pay', on: newOnce() })
    const first = waited.send({ key, body })
    await arrived
    const { send, look, runs } = accepting({}, undefined, { name: 'pay' })
    const met = await send({ key, body })
    expect([met.status, met.json.state, (await look(met.header('location'))).json.state]).toEqual([202, 'processing', 'processing'])
    open()
    await first
    expect([(await look(met.header('location'))).json, runs()]).toEqual([{ order: 1 }, 0])
  })
})

describe.each<ProfileName>(['ietf', 'stripe'])('status() in the %s profile', (profile) => {
  test('tells the state, when it was accepted and how often it was begun', async () => {
    const { accepting, advance } = await setup(database, profile)
    const { work, arrived, open } = gated()
    const { send, look, carryOut } = accepting({}, (n, run) => {
      if (n === 1) throw new Error('unlucky')
      return work(n, run)
    })
    const before = Date.now()
    const accepted = await send({ key, body })
    const location = accepted.header('location')
    const pending = await look(location)
    expect({ status: pending.status, json: pending.json }).toEqual({
      status: 200,
      json: { id: accepted.json.id, state: 'pending', createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/) },
    })
    expect(Math.abs(Date.parse(pending.json.createdAt) - before)).toBeLessThan(hour)
    expect(steady(pending)).toEqual([
      ['retry-after', '1'],
      ['content-type', 'application/json'],
      ['cache-control', 'no-store'],
    ])

    await expect(carryOut()).rejects.toThrow('unlucky')
    expect((await look(location)).json).toMatchObject({ state: 'pending', attempt: 1 })
    const attempt = carryOut()
    await arrived
    expect((await look(location)).json).toEqual({ ...pending.json, state: 'processing', attempt: 2 })
    await advance(hour)
    expect((await look(location)).json).toMatchObject({ state: 'processing', attempt: 2 })
    open()
    await attempt
    expect((await look(location)).json).toEqual({ order: 2 })
  })

  test('is the answer itself once there is one, a decline too, and is not to be cached', async () => {
    const { accepting } = await setup(database, profile)
    const { send, look, carryOut } = accepting({}, () => reply(402, { error: 'card_declined' }, { 'x-own': 'yes' }))
    const location = (await send({ key, body })).header('location')
    await carryOut()
    const answer = await look(location)
    expect({ status: answer.status, text: answer.text, marked: isReplay(answer) }).toEqual({
      status: 402,
      text: '{"error":"card_declined"}',
      marked: true,
    })
    expect([answer.header('x-own'), answer.header('cache-control'), answer.header('retry-after')]).toEqual(['yes', 'no-store', undefined])
  })

  test('what an operation says of caching its own answer goes before ours', async () => {
    const { accepting } = await setup(database, profile)
    const { send, look, carryOut } = accepting({}, () => reply(200, {}, { 'Cache-Control': 'private, max-age=60' }))
    const location = (await send({ key, body })).header('location')
    await carryOut()
    expect((await look(location)).headers.filter(([name]) => name.toLowerCase() === 'cache-control')).toEqual([
      ['Cache-Control', 'private, max-age=60'],
    ])
  })

  test('410 from the moment at which the answer expires until it is reaped, then 404', async () => {
    const { accepting, advance, store } = await setup(database, profile)
    const { send, look, carryOut } = accepting()
    const location = (await send({ key, body })).header('location')
    await carryOut()
    await advance(23 * hour)
    expect((await look(location)).status).toBe(201)
    await advance(hour)
    const expired = await look(location)
    expect(problemOf(expired)).toEqual({ status: 410, code: 'operation_expired' })
    expect([expired.header('cache-control'), isReplay(expired)]).toEqual(['no-store', false])
    await store.keyReap({ limit: 1_000 })
    expect(problemOf(await look(location))).toEqual({ status: 404, code: 'operation_unknown' })
  })

  test('what waits does not expire, however long it waits', async () => {
    const { accepting, advance } = await setup(database, profile)
    const { send, look } = accepting()
    const location = (await send({ key, body })).header('location')
    await advance(1_000 * hour)
    expect((await look(location)).json.state).toBe('pending')
  })

  test('an answer over the cap: 410 with the original status and Location, as at a retry', async () => {
    const { accepting } = await setup(database, profile, { maxAnswerBytes: 100 })
    const { send, look, carryOut } = accepting({}, () => reply(201, 'x'.repeat(200), { location: '/orders/1' }))
    const location = (await send({ key, body })).header('location')
    await carryOut()
    const answer = await look(location)
    expect([problemOf(answer), answer.header('location')]).toEqual([{ status: 410, code: 'answer_not_kept' }, '/orders/1'])
    expect(problemOf(await send({ key, body }))).toEqual(problemOf(answer))
  })

  test('a parked operation: the unknown outcome, as at a retry, in the dialect', async () => {
    const { accepting, once, caller } = await setup(database, profile)
    const { send, look, carryOut, operation } = accepting({}, async (n, run) => {
      const fails = () => Promise.reject(new Error('connection reset'))
      if (n === 1) await run?.call('charge', fails, { whenUnknown: 'park' })
      return reply(201, { n })
    })
    const location = (await send({ key, body })).header('location')
    expect((await carryOut()).kind).toBe('parked')
    for (const answer of [await look(location), await send({ key, body })]) {
      expect(problemOf(answer)).toEqual({ status: 500, code: 'outcome_unknown' })
      expect([isReplay(answer), 'error' in answer.json]).toEqual([false, profile === 'stripe'])
    }
    await once.resolve({ tenant: caller, scope: operation.name, key: 'k' }, { as: 'did-not-happen' })
    expect([(await look(location)).json.state, (await send({ key, body })).status]).toEqual(['pending', 202])
    await carryOut()
    expect((await look(location)).json).toEqual({ n: 2 })
  })

  test('an error that is stored is told in the dialect, as a replay', async () => {
    const { accepting } = await setup(database, profile)
    const work = () => Promise.reject(new Error('boom'))
    const { send, look, carryOut } = accepting({}, work, { storeErrors: true })
    const location = (await send({ key, body })).header('location')
    await expect(carryOut()).rejects.toThrow('boom')
    const answer = await look(location)
    expect([problemOf(answer), isReplay(answer)]).toEqual([{ status: 500, code: 'work_failed' }, true])
  })

  test('an error that the operation throws is not stored: a worker tries again', async () => {
    const { accepting } = await setup(database, profile)
    const { send, look, carryOut } = accepting({}, (n) => (n === 1 ? Promise.reject(new Error('boom')) : reply(201, { n })))
    const location = (await send({ key, body })).header('location')
    await expect(carryOut()).rejects.toThrow('boom')
    expect((await look(location)).json).toMatchObject({ state: 'pending', attempt: 1 })
    await carryOut()
    expect((await look(location)).json).toEqual({ n: 2 })
  })

  test.each(['', '/', '/operations', '/operations/', '/operations/x', "/operations/';--", '/operations/%zz', '/operations/%00'])(
    '404 for %j, which names no operation',
    async (url) => {
      const { accepting } = await setup(database, profile)
      expect(problemOf(await accepting().look(url))).toEqual({ status: 404, code: 'operation_unknown' })
    },
  )

  test('takes the id from where it is told to, and 404 where there is none', async () => {
    const { accepting } = await setup(database, profile)
    const ids: (string | undefined)[] = []
    const { send, look } = accepting({}, undefined, {}, { id: async () => ids.shift() })
    ids.push((await send({ key, body })).json.id, undefined, 'x')
    expect([(await look('/any')).status, (await look('/any')).status, (await look('/any')).status]).toEqual([200, 404, 404])
  })

  test('a slash at the end and a query are no part of the id', async () => {
    const { accepting } = await setup(database, profile)
    const { send, look } = accepting()
    const location = (await send({ key, body })).header('location')
    expect([(await look(`${location}/`)).status, (await look(`${location}?verbose=1`)).status]).toEqual([200, 200])
  })

  test('D5 the store is down: 503 with Retry-After, not to be cached', async () => {
    const pool = database.createPool()
    const { accepting } = await setup(database, profile, { pool, storeTimeout: '500ms' })
    const { send, look } = accepting()
    const location = (await send({ key, body })).header('location')
    await pool.end()
    for (const answer of [await look(location), await send({ key, body })]) {
      expect(problemOf(answer)).toEqual({ status: 503, code: 'store_unavailable' })
      expect(Number(answer.header('retry-after'))).toBeGreaterThanOrEqual(1)
    }
    expect((await look(location)).header('cache-control')).toBe('no-store')
  })

  test('an encrypted operation is carried out and read', async () => {
    const encryption = { keys: [{ id: 'k1', key: Buffer.alloc(32, 7) }] }
    const { accepting } = await setup(database, profile, { encryption })
    const { send, look, carryOut } = accepting({}, (_, __, input) => reply(201, { got: input }))
    const location = (await send({ key, body })).header('location')
    await carryOut()
    expect((await look(location)).json).toEqual({ got: { amount: 100 } })
  })
})

describe('request ids', () => {
  test('stripe: the answer of the work names the request that was accepted as the original one', async () => {
    const { accepting } = await setup(database, 'stripe')
    const { send, look, carryOut } = accepting()
    const accepted = await send({ key, body })
    expect(accepted.header('request-id')).toMatch(/^req_[0-9a-f]{32}$/)
    const location = accepted.header('location')
    expect((await look(location)).header('request-id')).not.toBe(accepted.header('request-id'))
    expect((await send({ key, body })).header('request-id')).not.toBe(accepted.header('request-id'))
    await carryOut()
    for (const answer of [await look(location), await send({ key, body })]) {
      expect(answer.header('original-request')).toBe(accepted.header('request-id'))
      expect(answer.header('request-id')).not.toBe(accepted.header('request-id'))
    }
  })

  test('ietf: there are none', async () => {
    const { accepting } = await setup(database, 'ietf')
    const { send, look } = accepting()
    const accepted = await send({ key, body })
    expect([accepted.header('request-id'), (await look(accepted.header('location'))).header('request-id')]).toEqual([undefined, undefined])
  })
})
