import { describe, expect, test } from 'vitest'
import { isOncekeyError, reply } from '../../src/index.js'
import { useDatabase } from '../support/postgres/database.js'
import type { Native, RequestParts } from './request.js'
import { isReplay, type Seen } from './seen.js'
import { everywhere, type ProfileName, setup } from './setup.js'

const database = useDatabase()

const key = 'k'
const body = '{"amount":100}'

const otherEndpoints: [string, RequestParts][] = [
  ['path', { url: '/refunds' }],
  ['method', { method: 'PATCH' }],
]

function expectOtherEndpoint(profile: ProfileName, answer: Seen, part: string) {
  if (profile === 'ietf') expect({ status: answer.status, ...answer.json }).toMatchObject({ status: 422, code: 'key_reused', part })
  else {
    expect(answer.status).toBe(400)
    expect(answer.json.error).toMatchObject({ type: 'idempotency_error', message: expect.stringContaining('same endpoint') })
  }
}

describe.each(['ietf', 'stripe'] as const)('the scope of idempotency() in the %s profile', (profile) => {
  const methods = ['POST', 'PATCH']

  test.each(otherEndpoints)('F4 other %s: its own answer in ietf; stripe: 400, endpoint message', async (part, other) => {
    const { handler } = await setup(database, profile)
    const { send, runs } = handler({ methods })
    await send({ key, body })
    const answer = await send({ key, body, ...other })
    if (profile === 'stripe') {
      expectOtherEndpoint(profile, answer, part)
      expect(runs()).toBe(1)
    } else {
      expect(answer.json).toEqual({ order: 2 })
      expect(isReplay(answer)).toBe(false)
      expect(isReplay(await send({ key, body, ...other }))).toBe(true)
      expect(runs()).toBe(2)
    }
  })

  test.each(otherEndpoints)("F4 other %s with scope: 'tenant': 422, n=1", async (part, other) => {
    const { handler } = await setup(database, profile)
    const { send, runs } = handler({ methods, scope: 'tenant' })
    await send({ key, body })
    expectOtherEndpoint(profile, await send({ key, body, ...other }), part)
    expect(runs()).toBe(1)
  })

  test.each(otherEndpoints)("F4 other %s with scope: 'endpoint': its own answer", async (_, other) => {
    const { handler } = await setup(database, profile)
    const { send, runs } = handler({ methods, scope: 'endpoint' })
    await send({ key, body })
    expect(isReplay(await send({ key, body, ...other }))).toBe(false)
    expect(runs()).toBe(2)
  })

  test('F4 routes under one name meet, and routes under two names do not', async () => {
    const { handler } = await setup(database, profile)
    const [orders, refunds, others] = [{ name: 'money' }, { name: 'money' }, { name: 'others' }].map((scope) => handler({ scope }))
    await orders?.send({ key, body })
    expectOtherEndpoint(profile, (await refunds?.send({ key, body, url: '/refunds' })) as Seen, 'path')
    expect(refunds?.runs()).toBe(0)
    expect((await others?.send({ key, body, url: '/refunds' }))?.status).toBe(201)
    expect(others?.runs()).toBe(1)
  })

  test('a path of any length has its scope', async () => {
    const { handler } = await setup(database, profile)
    const { send, runs } = handler({ scope: 'endpoint' })
    const long = `/orders/${'o'.repeat(300)}`
    expect((await send({ key, body, url: `${long}/1` })).status).toBe(201)
    expect(isReplay(await send({ key, body, url: `${long}/1` }))).toBe(true)
    expect(isReplay(await send({ key, body, url: `${long}/2` }))).toBe(false)
    expect(runs()).toBe(2)
  })
})

describe.each(['ietf', 'stripe'] as const)('the scope of serve() in the %s profile', (profile) => {
  test.each(otherEndpoints)('F4 the same operation at another %s: 422; stripe: 400, endpoint message', async (part, other) => {
    const { operation } = await setup(database, profile)
    const { send, runs } = operation()
    await send({ key, body })
    expectOtherEndpoint(profile, await send({ key, body, ...other }), part)
    expect(runs()).toBe(1)
  })

  test('F4 two operations never meet', async () => {
    const { operation } = await setup(database, profile)
    const [one, other] = [operation(), operation()]
    await one.send({ key, body })
    expect(isReplay(await other.send({ key, body }))).toBe(false)
    expect(other.runs()).toBe(1)
  })
})

describe.each(everywhere)('tenants of %s() in the %s profile', (surface, profile) => {
  test("T1 two tenants, one key: n=2, and nobody sees the other's bytes", async () => {
    const { on, caller } = await setup(database, profile)
    const { send, runs } = on(surface, {}, (n) => reply(201, { secret: `of run ${n}` }))
    const other = `${caller}-2`
    const answers = [await send({ key, body }), await send({ key, body, caller: other })]
    expect(answers.map(({ json }) => json.secret)).toEqual(['of run 1', 'of run 2'])
    expect(answers.map(isReplay)).toEqual([false, false])
    const replays = [await send({ key, body }), await send({ key, body, caller: other })]
    expect(replays.map(({ json }) => json.secret)).toEqual(['of run 1', 'of run 2'])
    expect(runs()).toBe(2)
  })

  test("T1 another tenant's other body is no mismatch", async () => {
    const { on, caller } = await setup(database, profile)
    const { send } = on(surface)
    await send({ key, body })
    expect((await send({ key, body: '{"amount":7}', caller: `${caller}-2` })).status).toBe(201)
  })

  test("T1 with tenant: 'single' everybody is one", async () => {
    const { on, caller } = await setup(database, profile)
    const { send, runs } = on(surface, { tenant: 'single' })
    const own = `"${caller}"`
    await send({ key: own, body, caller: 'one' })
    expect(isReplay(await send({ key: own, body, caller: 'two' }))).toBe(true)
    expect(runs()).toBe(1)
  })

  test("T2 a stored key and bad credentials: the service's own error, n=1, and nothing of the answer", async () => {
    const { on } = await setup(database, profile)
    const unauthorised = Object.assign(new Error('who are you?'), { status: 401 })
    const tenant = async ({ caller, headers }: Native) => {
      if (headers.some(([name]) => name === 'x-bad')) throw unauthorised
      return caller
    }
    const { send, runs } = on(surface, { tenant })
    await send({ key, body })
    await expect(send({ key, body, headers: [['x-bad', '1']] })).rejects.toBe(unauthorised)
    expect(isReplay(await send({ key, body }))).toBe(true)
    expect(runs()).toBe(1)
  })

  test.each([
    ['nobody', undefined],
    ['an empty text', ''],
    ['a number', 7],
  ])('T2 a tenant that is %s is an error, and no unprotected run', async (_, nobody) => {
    const { on } = await setup(database, profile)
    const { send, runs } = on(surface, { tenant: () => nobody as unknown as string })
    const error = await send({ key, body }).catch((thrown: unknown) => thrown)
    expect(isOncekeyError(error, 'tenant_invalid')).toBe(true)
    expect(runs()).toBe(0)
  })

  test('O3 a 401, 429 or 503 before the work: nothing is stored, and the same key runs later', async () => {
    const { on, keys } = await setup(database, profile)
    let ready = false
    const tenant = ({ caller }: Native) => {
      if (!ready) throw Object.assign(new Error('later'), { status: 429 })
      return caller
    }
    const { send, runs } = on(surface, { tenant })
    await expect(send({ key, body })).rejects.toMatchObject({ status: 429 })
    expect(await keys()).toBe(0)
    ready = true
    expect(isReplay(await send({ key, body }))).toBe(false)
    expect(runs()).toBe(1)
  })
})
