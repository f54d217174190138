import { describe, expect, test } from 'vitest'
import type { HeaderPair } from '../../src/index.js'
import { useDatabase } from '../support/postgres/database.js'
import type { RequestParts } from './request.js'
import { isReplay, problemOf, type Seen } from './seen.js'
import { everywhere, gated, type ProfileName, setup } from './setup.js'

const database = useDatabase()

const key = 'k'
const body = '{"amount":100}'

/** How a mismatch looks in each dialect. */
function expectMismatch(profile: ProfileName, answer: Seen, part: string) {
  if (profile === 'ietf') {
    expect(answer.status).toBe(422)
    expect(answer.json).toMatchObject({ code: 'key_reused', status: 422, part })
    const words: Record<string, string> = { query: 'query string', mediaType: 'media type' }
    expect(answer.json.detail).toContain(`another ${words[part] ?? part}. Use a new key`)
    return
  }
  expect(answer.status).toBe(400)
  expect(answer.json).toMatchObject({ error: { type: 'idempotency_error', part } })
  const same = part === 'method' || part === 'path' ? 'same endpoint' : 'same parameters'
  expect(answer.json.error.message).toContain(`can only be used ${part === 'method' || part === 'path' ? 'for' : 'with'} the ${same}`)
}

describe.each(everywhere)('what is the same request for %s() in the %s profile', (surface, profile) => {
  /** Sends one after the other with the same key, and says what became of the second. */
  async function pair(first: RequestParts, second: RequestParts) {
    const { on } = await setup(database, profile)
    const { send, runs } = on(surface)
    expect((await send({ key, ...first })).status).toBe(201)
    const answer = await send({ key, ...second })
    return { answer, runs: runs() }
  }

  test('F1 done, other body: 422 (stripe: 400 idempotency_error), n=1', async () => {
    const { answer, runs } = await pair({ body }, { body: '{"amount":101}' })
    expectMismatch(profile, answer, 'body')
    expect(isReplay(answer)).toBe(false)
    expect(runs).toBe(1)
  })

  test('F2 after F1 the original body: a replay', async () => {
    const { on } = await setup(database, profile)
    const { send, runs } = on(surface)
    const first = await send({ key, body })
    expectMismatch(profile, await send({ key, body: '{"amount":101}' }), 'body')
    const third = await send({ key, body })
    expect(isReplay(third)).toBe(true)
    expect(third.bytes).toEqual(first.bytes)
    expect(runs()).toBe(1)
  })

  test('F3 in flight, other body: 422, not 409, and the one in flight is not disturbed', async () => {
    const { on } = await setup(database, profile)
    const { work, arrived, open } = gated()
    const { send, runs } = on(surface, {}, work)
    const first = send({ key, body })
    await arrived
    expectMismatch(profile, await send({ key, body: '{"amount":101}' }), 'body')
    open()
    expect((await first).status).toBe(201)
    expect(isReplay(await send({ key, body }))).toBe(true)
    expect(runs()).toBe(1)
  })

  test.each<[string, RequestParts, string]>([
    ['other query', { url: '/orders?dry_run=true', body }, 'query'],
    ['other media type', { body, headers: [['Content-Type', 'application/merge-patch+json']] }, 'mediaType'],
    ['a media type that is not JSON', { body, headers: [['Content-Type', 'text/plain']] }, 'mediaType'],
  ])('F5 %s: 422, n=1', async (_, second, part) => {
    const { answer, runs } = await pair({ body }, second)
    expectMismatch(profile, answer, part)
    expect(runs).toBe(1)
  })

  test.each([
    ['a charset', 'application/json; charset=utf-8'],
    ['case', 'Application/JSON'],
  ])('F5 a change of %s only: a replay', async (_, mediaType) => {
    const { answer, runs } = await pair({ body }, { body, headers: [['content-type', mediaType]] })
    expect(isReplay(answer)).toBe(true)
    expect(runs).toBe(1)
  })

  test.each([
    ['member order', '{"a":1,"b":{"c":2,"d":3}}', '{"b":{"d":3,"c":2},"a":1}'],
    ['white space', '{"a":[1,2]}', ' {\n\t"a" : [ 1 ,2 ] }\r\n'],
    ['1.0 and 1', '{"a":1.0}', '{"a":1}'],
    ['1e2 and 100', '{"a":1e2}', '{"a":100}'],
    ['\\u00e9 and é', '{"a":"\\u00e9"}', '{"a":"é"}'],
  ])('F6 %s: a replay', async (_, first, second) => {
    const { answer, runs } = await pair({ body: first }, { body: second })
    expect(isReplay(answer)).toBe(true)
    expect(runs).toBe(1)
  })

  test.each<[string, RequestParts, RequestParts]>([
    ['integers past 2^53 that differ', { body: '{"a":9007199254740993}' }, { body: '{"a":9007199254740992}' }],
    ['a duplicate member', { body: '{"a":1,"a":2}' }, { body: '{"a":2}' }],
    ['a duplicate member that was added', { body: '{"a":2}' }, { body: '{"a":1,"a":2}' }],
    ['array order', { body: '[1,2]' }, { body: '[2,1]' }],
    ['null and absent', { body: '{"a":null}' }, { body: '{}' }],
    ['no body and {}', {}, { body: '{}', headers: [] }],
    ['{} and no body', { body: '{}' }, { headers: [['Content-Type', 'application/json']] }],
  ])('F7 %s: 422, n=1', async (_, first, second) => {
    const { answer, runs } = await pair(first, second)
    expect(problemOf(answer)).toEqual({ status: profile === 'ietf' ? 422 : 400, code: 'key_reused' })
    expect(runs).toBe(1)
  })

  test('F7 JSON in a charset other than UTF-8 is compared by its bytes, n=1', async () => {
    const headers: HeaderPair[] = [['Content-Type', 'application/json; charset=utf-7']]
    const { answer, runs } = await pair({ body: '{"a":"+AOk-"}', headers }, { body: '{"a": "+AOk-"}', headers })
    expectMismatch(profile, answer, 'body')
    expect(runs).toBe(1)
  })

  test('F8 other traceparent, User-Agent, Accept, Date: a replay', async () => {
    const headers = (salt: string): HeaderPair[] => [
      ['traceparent', `00-${salt.repeat(32)}-${salt.repeat(16)}-01`],
      ['User-Agent', `client/${salt}`],
      ['Accept', `application/x-${salt}`],
      ['Date', `Sat, 0${salt} Nov 2025 00:00:00 GMT`],
    ]
    const { answer, runs } = await pair({ body, headers: headers('1') }, { body, headers: headers('2') })
    expect(isReplay(answer)).toBe(true)
    expect(runs).toBe(1)
  })

  // HTTP/2 needs neither Content-Length nor Transfer-Encoding, nor has a Request of the Fetch standard one.
  test('F1 other body, of a request that does not say how long it is: 422, n=1', async () => {
    const { on } = await setup(database, profile)
    const unannounced = (text: string): RequestParts => ({
      key,
      headers: [['Content-Type', 'application/json']],
      arrives: { bytes: new TextEncoder().encode(text) },
    })
    const { send, runs } = on(surface)
    expect((await send(unannounced(body))).status).toBe(201)
    expectMismatch(profile, await send(unannounced('{"amount":101}')), 'body')
    expect(runs()).toBe(1)
  })
})

describe.each(everywhere)('a mismatch of %s() in the %s profile', (surface, profile) => {
  const strange: RequestParts = { key, url: '/orders?b=2', headers: [['X-Trace', 'other']], body: '{"amount":7}' }

  /** The answer to the strange request, when the key was used for this one before. */
  async function mismatchAfter(mark: string, changes: RequestParts = {}) {
    const { handler, operation, caller } = await setup(database, profile)
    const work = () => ({ status: 201, headers: [['x-secret', mark]] as const, body: new TextEncoder().encode(`"${mark}"`) })
    const { send } = surface === 'serve' ? operation({}, work) : handler({ scope: 'tenant' }, work)
    const first = { key, url: `/${mark}?q=${mark}`, headers: [['X-Trace', mark]], body: `{"card":"${mark}"}`, ...changes } as const
    expect((await send(first)).status).toBe(201)
    const answer = await send({ ...strange, ...(changes.url ? { url: changes.url } : {}) })
    return { answer, caller }
  }

  test('says nothing of what was stored: after two quite different requests it is the same, byte for byte', async () => {
    const answers = [await mismatchAfter('4242424242424242'), await mismatchAfter('zzz-the-other-one')]
    const told = answers.map(({ answer: { status, headers, bytes } }) => {
      return { status, headers: headers.filter(([name]) => name !== 'request-id'), bytes }
    })
    expect(told[0]).toEqual(told[1])
    expectMismatch(profile, answers[0]?.answer as Seen, 'path')
  })

  test('repeats nothing of the stored request, of its answer, of the key or of the tenant', async () => {
    const mark = '4242424242424242'
    const { answer, caller } = await mismatchAfter(mark, { url: '/orders?b=2' })
    expectMismatch(profile, answer, 'body')
    const whole = JSON.stringify([answer.status, answer.headers, answer.text])
    for (const secret of [mark, caller, 'card', 'x-secret']) expect(whole).not.toContain(secret)
  })
})

describe.each(everywhere)('a body that a parser has eaten, for %s() in the %s profile', (surface, profile) => {
  const parsed = (value: unknown): RequestParts => ({ key, body: JSON.stringify(value), arrives: { parsed: value } })

  test('is an error that says so, n=0', async () => {
    const { on, keys } = await setup(database, profile)
    const { send, runs } = on(surface)
    await expect(send(parsed({ amount: 100 }))).rejects.toMatchObject({
      code: 'raw_body_gone',
      message: expect.stringContaining('rawBody'),
    })
    expect(runs()).toBe(0)
    expect(await keys()).toBe(0)
  })

  test("is compared by its meaning with fingerprint: 'parsed'", async () => {
    const { on } = await setup(database, profile)
    const { send, runs } = on(surface, { fingerprint: 'parsed' })
    expect((await send(parsed({ amount: 100, currency: 'eur' }))).status).toBe(201)
    expect(isReplay(await send(parsed({ currency: 'eur', amount: 100 })))).toBe(true)
    expectMismatch(profile, await send(parsed({ amount: 101, currency: 'eur' })), 'body')
    expect(runs()).toBe(1)
  })

  test.each(['raw', 'parsed'] as const)(
    "of which nothing is left is not taken for another one with fingerprint: '%s': an error, n=0",
    async (fingerprint) => {
      const { on, keys } = await setup(database, profile)
      const { send, runs } = on(surface, { fingerprint })
      for (const value of [{}, { amount: 1 }]) {
        await expect(send({ ...parsed(value), arrives: { parsed: undefined } })).rejects.toMatchObject({ code: 'raw_body_gone' })
      }
      expect([runs(), await keys()]).toEqual([0, 0])
    },
  )

  test("null is a body like any other with fingerprint: 'parsed'", async () => {
    const { on } = await setup(database, profile)
    const { send } = on(surface, { fingerprint: 'parsed' })
    expect((await send(parsed(null))).status).toBe(201)
    expect(isReplay(await send(parsed(null)))).toBe(true)
    expectMismatch(profile, await send(parsed({})), 'body')
  })

  test("is refused with fingerprint: 'parsed' if it is nested too deep to be written: 400, n=0, not stored", async () => {
    const { on, keys } = await setup(database, profile)
    const { send, runs } = on(surface, { fingerprint: 'parsed' })
    let deep: unknown = { toJSON: () => 1 }
    for (let depth = 0; depth < 100_000; depth += 1) deep = [deep]
    const refused = await send({ key, body: '[]', arrives: { parsed: deep } })
    expect(problemOf(refused)).toEqual({ status: 400, code: 'input_invalid' })
    expect((refused.json.error ?? refused.json).issues).toEqual([{ message: 'The body is nested too deep.' }])
    expect([runs(), await keys()]).toEqual([0, 0])
  })

  test("is compared by its bytes where they are there, with fingerprint: 'parsed' too", async () => {
    const { on } = await setup(database, profile)
    const { send } = on(surface, { fingerprint: 'parsed' })
    await send({ key, body: '{"a":9007199254740993}' })
    expectMismatch(profile, await send({ key, body: '{"a":9007199254740992}' }), 'body')
  })
})
