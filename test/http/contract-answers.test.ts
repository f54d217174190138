import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { type HeaderPair, reply } from '../../src/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { isReplay, problemOf, type Seen } from './seen.js'
import { everywhere, gated, setup } from './setup.js'

const database = useDatabase()

const key = 'k'
const body = '{"amount":100}'

/** All headers but those by which a replay, or a profile, says what it is. */
function ownHeaders({ headers }: Seen): HeaderPair[] {
  return headers.filter(([name]) => !['idempotent-replayed', 'original-request', 'request-id'].includes(name.toLowerCase()))
}

describe.each(everywhere)('answers of %s() in the %s profile', (surface, profile) => {
  test.each([400, 402, 404, 409, 422])('O1 a %i of the handler is stored and replayed', async (status) => {
    const { on } = await setup(database, profile)
    const { send, runs } = on(surface, {}, (n) => reply(status, { error: 'declined', n }))
    const answers = [await send({ key, body }), await send({ key, body })]
    expect(answers.map((answer) => [answer.status, answer.json])).toEqual([
      [status, { error: 'declined', n: 1 }],
      [status, { error: 'declined', n: 1 }],
    ])
    expect(answers.map(isReplay)).toEqual([false, true])
    expect(runs()).toBe(1)
  })

  test('R1 a replay has the status, the body bytes, and the headers in their order, repeated ones too', async () => {
    const { on } = await setup(database, profile)
    const headers: HeaderPair[] = [
      ['Content-Type', 'application/vnd.orders+json; charset=utf-8'],
      ['Location', '/orders/1'],
      ['ETag', 'W/"7"'],
      ['X-Custom', 'one'],
      ['Link', '</orders/1>; rel="self"'],
      ['X-Custom', 'two'],
      ['Cache-Control', 'no-store'],
    ]
    const bytes = Uint8Array.from([0x7b, 0x22, 0xff, 0x00, 0x22, 0x7d])
    const { send } = on(surface, {}, () => reply(203, bytes, headers))
    const [first, second] = [await send({ key, body }), await send({ key, body })]
    expect(first).toMatchObject({ status: 203, bytes: [...bytes] })
    expect(second).toMatchObject({ status: 203, bytes: [...bytes] })
    expect(ownHeaders(first)).toEqual(headers)
    expect(ownHeaders(second)).toEqual(headers)
  })

  test('R1 an answer that looks like one of ours, because it comes from another such service, is replayed as it is', async () => {
    const { on } = await setup(database, profile)
    const upstream = { type: 'urn:oncekey:problem:key_reused', title: 'of the upstream', status: 422, code: 'key_reused' }
    const { send } = on(surface, {}, () => reply(422, upstream, { 'content-type': 'application/problem+json' }))
    const [first, second] = [await send({ key, body }), await send({ key, body })]
    expect(first.json).toEqual(upstream)
    expect({ status: second.status, bytes: second.bytes, marked: isReplay(second) }).toEqual({
      status: 422,
      bytes: first.bytes,
      marked: true,
    })
  })

  test.each([204, 303])('R1 a %i without a body is replayed, n=1', async (status) => {
    const { on } = await setup(database, profile)
    const { send, runs } = on(surface, {}, () => reply(status, undefined, status === 303 ? { location: '/orders/1' } : {}))
    const [first, second] = [await send({ key, body }), await send({ key, body })]
    expect({ status: second.status, bytes: second.bytes, location: second.header('location') }).toEqual({
      status,
      bytes: [],
      location: first.header('location'),
    })
    expect(isReplay(second)).toBe(true)
    expect(runs()).toBe(1)
  })

  test.each([
    ['Date', 'Sat, 01 Nov 2025 00:00:00 GMT'],
    ['Set-Cookie', 'session=first'],
    ['Connection', 'close'],
    ['Keep-Alive', 'timeout=5'],
    ['Transfer-Encoding', 'chunked'],
    ['X-Request-Id', 'first'],
  ])('R2 a stored %s is not replayed', async (name, value) => {
    const { on } = await setup(database, profile)
    const { send } = on(surface, {}, () => reply(201, {}, [[name, value]]))
    const [first, second] = [await send({ key, body }), await send({ key, body })]
    expect(first.header(name)).toBe(value)
    expect(isReplay(second)).toBe(true)
    expect(second.header(name)).toBeUndefined()
    expect(JSON.stringify(second.headers)).not.toContain(value)
  })

  test('R2 the id of the first request is not the id of its replay', async () => {
    const { on } = await setup(database, profile)
    const { send } = on(surface, {}, () => reply(201, {}, { 'Request-Id': 'req_of_the_service' }))
    const [first, second] = [await send({ key, body }), await send({ key, body })]
    expect(first.headers.filter(([name]) => name.toLowerCase() === 'request-id').map(([, value]) => value)).toEqual(['req_of_the_service'])
    expect(second.header('request-id')).toEqual(profile === 'stripe' ? expect.stringMatching(/^req_[0-9a-f]{32}$/) : undefined)
    const originals = second.headers.filter(([name]) => name.toLowerCase() === 'original-request').map(([, value]) => value)
    expect(originals).toEqual(profile === 'stripe' ? ['req_of_the_service'] : [])
  })

  test('R3 the marker is on replays only, once, and not on a mismatch', async () => {
    const { on } = await setup(database, profile)
    const { send } = on(surface, {}, () => reply(201, {}, { 'X-Other': 'kept' }))
    const markers = ({ headers }: Seen) => headers.filter(([name]) => name.toLowerCase() === 'idempotent-replayed')
    expect(markers(await send({ key, body }))).toEqual([])
    expect(markers(await send({ key, body }))).toEqual([['idempotent-replayed', 'true']])
    expect(markers(await send({ key, body }))).toEqual([['idempotent-replayed', 'true']])
    expect(markers(await send({ key, body: '{"other":true}' }))).toEqual([])
  })

  test('R3 a marker that an answer of some other layer has is not stored as ours', async () => {
    const { on } = await setup(database, profile)
    const { send } = on(surface, {}, () => reply(201, {}, { 'Idempotent-Replayed': 'maybe' }))
    await send({ key, body })
    const { headers } = await send({ key, body })
    expect(headers.filter(([name]) => name.toLowerCase() === 'idempotent-replayed')).toEqual([['idempotent-replayed', 'true']])
  })

  test.each<[string, Uint8Array, Record<string, string>]>([
    ['binary', Uint8Array.from({ length: 256 }, (_, byte) => byte), { 'content-type': 'image/png' }],
    ['invalid UTF-8 that calls itself JSON', Uint8Array.of(0x22, 0xff, 0xfe, 0x22), { 'content-type': 'application/json' }],
    ['gzip', gzipSync('{"zipped":true}'), { 'content-type': 'application/json', 'content-encoding': 'gzip' }],
    ['empty', new Uint8Array(), { 'content-type': 'text/plain' }],
  ])('R4 %s is replayed as it was', async (_, bytes, headers) => {
    const { on } = await setup(database, profile)
    const { send, runs } = on(surface, {}, () => reply(200, bytes, headers))
    const [first, again] = [await send({ key, body }), await send({ key, body })]
    for (const answer of [first, again]) {
      expect([answer.status, answer.bytes]).toEqual([200, [...bytes]])
      for (const [name, value] of Object.entries(headers)) expect(answer.header(name)).toBe(value)
    }
    expect([first, again].map(isReplay)).toEqual([false, true])
    expect(runs()).toBe(1)
  })

  test('R5 an answer over the size cap: whole the first time; then 410 with its status and Location, n=1', async () => {
    const { on } = await setup(database, profile, { maxAnswerBytes: 10 })
    const { send, runs } = on(surface, {}, () =>
      reply(201, { report: 'much more than ten bytes' }, { Location: '/reports/1', 'X-Secret': 's' }),
    )
    const first = await send({ key, body })
    expect(first.json).toEqual({ report: 'much more than ten bytes' })
    for (const again of [await send({ key, body }), await send({ key, body })]) {
      expect(problemOf(again)).toEqual({ status: 410, code: 'answer_not_kept' })
      expect((profile === 'stripe' ? again.json.error : again.json).originalStatus).toBe(201)
      expect(again.header('location')).toBe('/reports/1')
      expect(again.header('x-secret')).toBeUndefined()
      expect(isReplay(again)).toBe(true)
      if (profile === 'stripe') expect(again.header('original-request')).toBe(first.header('request-id'))
    }
    expect(runs()).toBe(1)
    expect(problemOf(await send({ key, body: '{}' })).code).toBe('key_reused')
  })

  test('R5 what is told of it has the id that the service gave the first request; ietf: none', async () => {
    const { on } = await setup(database, profile, { maxAnswerBytes: 10 })
    const { send } = on(surface, {}, () => reply(201, 'much more than ten bytes', { 'Request-Id': 'req_of_the_service' }))
    await send({ key, body })
    const again = await send({ key, body })
    expect(again.status).toBe(410)
    expect(again.header('original-request')).toBe(profile === 'stripe' ? 'req_of_the_service' : undefined)
  })

  test('R5 an answer of exactly the size cap is replayed', async () => {
    const { on } = await setup(database, profile, { maxAnswerBytes: 10 })
    const { send } = on(surface, {}, () => reply(200, new Uint8Array(10).fill(65)))
    await send({ key, body })
    expect(await send({ key, body })).toMatchObject({ status: 200, text: 'AAAAAAAAAA' })
  })

  test('stripe: replays carry Original-Request, equal to the Request-Id of the first answer; ietf: neither', async () => {
    const { on } = await setup(database, profile)
    const { send } = on(surface)
    const [first, second, third] = [await send({ key, body }), await send({ key, body }), await send({ key, body })]
    if (profile === 'ietf') {
      for (const { header } of [first, second]) expect([header('request-id'), header('original-request')]).toEqual([undefined, undefined])
      return
    }
    expect(first.header('request-id')).toMatch(/^req_[0-9a-f]{32}$/)
    expect(first.header('original-request')).toBeUndefined()
    expect([second, third].map(({ header }) => header('original-request'))).toEqual([
      first.header('request-id'),
      first.header('request-id'),
    ])
    const other = await send({ key: '"other"', body })
    expect(new Set([first, second, third, other].map(({ header }) => header('request-id'))).size).toBe(4)
  })
})

describe.each(['ietf', 'stripe'] as const)('input of serve() in the %s profile', (profile) => {
  const schema = z.object({ amount: z.number().positive() })
  const invalid = { status: 400, code: 'input_invalid' }

  test('O4 validation fails, then the corrected body with the same key: it runs', async () => {
    const { operation, keys } = await setup(database, profile)
    const { send, runs } = operation({}, undefined, { input: schema })
    const refused = await send({ key, body: '{"amount":-1}' })
    expect(problemOf(refused)).toEqual(invalid)
    const { issues } = profile === 'stripe' ? refused.json.error : refused.json
    expect(issues).toEqual([{ message: expect.any(String), path: ['amount'] }])
    expect(await keys()).toBe(0)
    expect((await send({ key, body: '{"amount":1}' })).status).toBe(201)
    expect(runs()).toBe(1)
  })

  test('O4 a known key replays or mismatches, also when the schema was tightened since', async () => {
    const { operation, newOnce } = await setup(database, profile)
    const loose = operation({}, undefined, { input: schema, name: 'pay' })
    const tight = operation({}, undefined, { input: z.object({ amount: z.number().min(1000) }), name: 'pay', on: newOnce() })
    const first = await loose.send({ key, body })
    const replay = await tight.send({ key, body })
    expect(isReplay(replay)).toBe(true)
    expect(replay.bytes).toEqual(first.bytes)
    expect(problemOf(await tight.send({ key, body: '{"amount":-5}' })).code).toBe('key_reused')
    expect(problemOf(await tight.send({ key: '"new"', body }))).toEqual(invalid)
    expect(tight.runs()).toBe(0)
  })

  test('O4 a known key in flight is 409, also with a body that is invalid now', async () => {
    const { operation, newOnce } = await setup(database, profile)
    const { work, arrived, open } = gated()
    const loose = operation({}, work, { input: schema, name: 'pay' })
    const tight = operation({}, undefined, { input: z.object({ amount: z.number().min(1000) }), name: 'pay', on: newOnce() })
    const first = loose.send({ key, body })
    await arrived
    expect(problemOf(await tight.send({ key, body })).code).toBe('key_in_use')
    open()
    await first
  })

  test('O4 what is not JSON: 400, n=0, not stored; a known key mismatches', async () => {
    const { operation, keys } = await setup(database, profile)
    const { send, runs } = operation()
    const refused = await send({ key, body: '{"amount":' })
    expect(problemOf(refused)).toEqual(invalid)
    expect((refused.json.error ?? refused.json).issues).toEqual([{ message: 'The body is not JSON.' }])
    expect(problemOf(await send({ key, body: Uint8Array.of(0x22, 0xff, 0x22) }))).toEqual(invalid)
    expect(await keys()).toBe(0)
    expect((await send({ key, body })).status).toBe(201)
    expect(problemOf(await send({ key, body: '{"amount":' })).code).toBe('key_reused')
    expect(runs()).toBe(1)
  })

  test('O4 a number beyond the doubles, which a later attempt would see as null: 400, n=0, not stored; a known key mismatches', async () => {
    const { operation, keys } = await setup(database, profile)
    const { send, runs } = operation()
    for (const number of ['1e400', '-1e400', `1${'0'.repeat(309)}`]) {
      const refused = await send({ key, body: `{"lines":[{"amount":${number}}]}` })
      expect(problemOf(refused)).toEqual(invalid)
      expect((refused.json.error ?? refused.json).issues).toEqual([{ message: 'A number in the body is too large.' }])
    }
    expect(await keys()).toBe(0)
    expect((await send({ key, body })).status).toBe(201)
    expect(problemOf(await send({ key, body: '{"amount":1e400}' })).code).toBe('key_reused')
    expect(runs()).toBe(1)
  })

  test('O4 a body without a media type is read as JSON', async () => {
    const { operation } = await setup(database, profile)
    const { send } = operation({}, (_, __, input) => reply(201, { input }))
    const answer = await send({ key, body, headers: [['Content-Type', '']] })
    expect([answer.status, answer.json]).toEqual([201, { input: { amount: 100 } }])
    expect(problemOf(await send({ key: '"other"', body: '{"amount":', headers: [['Content-Type', '']] }))).toEqual(invalid)
  })

  test('O4 a media type that is not JSON: 415, n=0, not stored', async () => {
    const { operation, keys } = await setup(database, profile)
    const { send, runs } = operation()
    const answer = await send({ key, body: 'amount=1', headers: [['Content-Type', 'application/x-www-form-urlencoded']] })
    expect(problemOf(answer)).toEqual({ status: 415, code: 'media_type_unsupported' })
    expect(runs()).toBe(0)
    expect(await keys()).toBe(0)
  })

  test('makes its input with `input`, from the request and the body', async () => {
    const { operation } = await setup(database, profile)
    const inputs: unknown[] = []
    const { send } = operation({ input: ({ caller }, given) => ({ by: caller.slice(0, 7), given }) }, (_, __, input) => {
      inputs.push(input)
      return reply(201)
    })
    await send({ key, body })
    await send({ key: '"nothing"' })
    expect(inputs).toEqual([{ by: 'tenant-', given: { amount: 100 } }, { by: 'tenant-' }])
  })
})
