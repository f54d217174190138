import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { field, header, type KeySource } from '../../src/http/key-source.js'
import { reply } from '../../src/index.js'
import { useDatabase } from '../support/postgres/database.js'
import type { Native, RequestParts } from './request.js'
import { isReplay, problemOf } from './seen.js'
import { everywhere, setup } from './setup.js'

const database = useDatabase()

const uuid = '8e03978e-40d5-43e8-bc93-6894a57f9324'
const body = '{"amount":100}'

/** To Stripe they are keys like any other. */
const notOfTheDraft: [string, RequestParts, RegExp][] = [
  ['an empty string', { key: '""' }, /is empty/],
  ['an unterminated string', { key: '"k' }, /end the key with a double quote/],
  ['a Boolean', { key: '?1' }, /needs double quotes/],
  ['a Byte Sequence', { key: ':aGk=:' }, /needs double quotes/],
  ['a Date', { key: '@1659578233' }, /needs double quotes/],
  ['an inner list', { key: '("k")' }, /needs double quotes/],
]

describe.each(everywhere)('keys of %s() in the %s profile', (surface, profile) => {
  test("K1 a quoted key, first time: the work's answer, n=1", async () => {
    const { on } = await setup(database, profile)
    const { send, runs } = on(surface)
    const first = await send({ key: `"${uuid}"`, body })
    expect({ status: first.status, json: first.json, location: first.header('location') }).toEqual({
      status: 201,
      json: { order: 1 },
      location: '/orders/1',
    })
    expect(isReplay(first)).toBe(false)
    expect(runs()).toBe(1)
  })

  test('K2 the same again: a replay, n=1', async () => {
    const { on } = await setup(database, profile)
    const { send, runs } = on(surface)
    const first = await send({ key: `"${uuid}"`, body })
    const second = await send({ key: `"${uuid}"`, body })
    expect({ status: second.status, bytes: second.bytes }).toEqual({ status: first.status, bytes: first.bytes })
    expect(isReplay(second)).toBe(true)
    expect(runs()).toBe(1)
  })

  test.each([
    ['a digit', '8e03978e-40d5-43e8-bc93-6894a57f9324'],
    ['a letter', 'ae03978e-40d5-43e8-bc93-6894a57f9324'],
  ])('K3 an unquoted key with %s first: the same key as its quoted form; strict: 400, n=0; stripe: a key of its own', async (_, raw) => {
    const { on } = await setup(database, profile)
    const standard = on(surface)
    await standard.send({ key: raw, body })
    expect(isReplay(await standard.send({ key: raw, body }))).toBe(true)
    expect(isReplay(await standard.send({ key: `"${raw}"`, body }))).toBe(profile === 'ietf')
    expect(standard.runs()).toBe(profile === 'ietf' ? 1 : 2)

    const strict = on(surface, { key: header('Idempotency-Key', { syntax: 'strict' }) })
    expect(problemOf(await strict.send({ key: raw, body }))).toEqual({ status: 400, code: 'key_invalid' })
    expect(strict.runs()).toBe(0)
  })

  test(String.raw`K4 "a\"b" is one key, and "ab" another`, async () => {
    const { on } = await setup(database, profile)
    const { send, runs } = on(surface)
    const escaped = String.raw`"a\"b"`
    await send({ key: escaped, body })
    expect(isReplay(await send({ key: escaped, body }))).toBe(true)
    expect(isReplay(await send({ key: '"ab"', body }))).toBe(false)
    expect(runs()).toBe(2)
  })

  test('K5 parameters after a quoted key are ignored; stripe: they belong to the key', async () => {
    const { on } = await setup(database, profile)
    const { send, runs } = on(surface)
    await send({ key: '"k"', body })
    expect(isReplay(await send({ key: '"k";x=1', body }))).toBe(profile === 'ietf')
    expect(runs()).toBe(profile === 'ietf' ? 1 : 2)
  })

  test('K5 unquoted keys with semicolons are never one key: 400, n=0; stripe: two keys', async () => {
    const { on } = await setup(database, profile)
    const { send, runs } = on(surface)
    const answers = [await send({ key: 'order;a', body }), await send({ key: 'order;b', body })]
    expect(answers.map(({ status }) => status)).toEqual(profile === 'ietf' ? [400, 400] : [201, 201])
    expect(answers.map(isReplay)).toEqual([false, false])
    expect(runs()).toBe(profile === 'ietf' ? 0 : 2)
  })

  test.each(['user 5, order 7', '(a)', '"k', '?1'])('K7 stripe: %s is a key, and two lines are none', async (key) => {
    const { on } = await setup(database, 'stripe')
    const { send, runs } = on(surface)
    await send({ key, body })
    expect(isReplay(await send({ key, body }))).toBe(true)
    const lines: [string, string][] = [key, key].map((line) => ['Idempotency-Key', line])
    expect((await send({ headers: lines, body })).status).toBe(400)
    expect(runs()).toBe(1)
  })

  test('K6 no key where it is required: 400, n=0', async () => {
    const { on, keys } = await setup(database, profile)
    const { send, runs } = on(surface, { required: true })
    expect(problemOf(await send({ body }))).toEqual({ status: 400, code: 'key_missing' })
    expect(runs()).toBe(0)
    expect(await keys()).toBe(0)
  })

  test('K6 no key where it is optional: runs each time, no marker', async () => {
    const { on } = await setup(database, profile)
    const { send, runs } = on(surface, { required: false })
    const answers = [await send({ body }), await send({ body })]
    expect(answers.map(({ status }) => status)).toEqual([201, 201])
    expect(answers.map(isReplay)).toEqual([false, false])
    expect(runs()).toBe(2)
  })

  test('K6 by default only serve() in the ietf profile requires a key', async () => {
    const { on } = await setup(database, profile)
    const { send } = on(surface)
    const { status } = await send({ body })
    expect(status).toBe(surface === 'serve' && profile === 'ietf' ? 400 : 201)
  })

  test.each<[string, RequestParts, RegExp]>([
    ['an empty value', { key: '' }, /is empty/],
    ['256 characters', { key: `"${'k'.repeat(256)}"` }, /longer than 255/],
    ['256 characters without quotes', { key: 'k'.repeat(256) }, /longer than 255/],
    ['a non-ASCII character', { key: '"kéy"' }, /not printable ASCII/],
    ['a TAB', { key: '"a\tb"' }, /not printable ASCII/],
    ['a DEL', { key: '"a\x7fb"' }, /not printable ASCII/],
    [
      'two lines',
      {
        headers: [
          ['Idempotency-Key', '"k"'],
          ['idempotency-key', '"k"'],
        ],
      },
      /more than once/,
    ],
    ...(profile === 'ietf' ? notOfTheDraft : []),
  ])('K7 %s: 400 that says so, n=0', async (_, parts, why) => {
    const { on, keys } = await setup(database, profile)
    const { send, runs } = on(surface, { required: false })
    const answer = await send({ ...parts, body })
    expect(problemOf(answer)).toEqual({ status: 400, code: 'key_invalid' })
    expect(profile === 'stripe' ? answer.json.error.message : answer.json.detail).toMatch(why)
    expect(runs()).toBe(0)
    expect(await keys()).toBe(0)
  })

  test('K7 255 characters are a key', async () => {
    const { on } = await setup(database, profile)
    const { send } = on(surface)
    const longest = 'k'.repeat(255)
    expect((await send({ key: profile === 'ietf' ? `"${longest}"` : longest, body })).status).toBe(201)
  })

  test('K8 ABC and abc are two keys', async () => {
    const { on } = await setup(database, profile)
    const { send, runs } = on(surface)
    await send({ key: '"ABC"', body })
    expect(isReplay(await send({ key: '"abc"', body }))).toBe(false)
    expect(runs()).toBe(2)
  })
})

const sources: { name: string; source: KeySource<Native>; withKey(key: string): RequestParts }[] = [
  {
    name: 'a header of another name',
    source: header('X-Request-Key'),
    withKey: (key) => ({ headers: [['x-request-key', key]], body }),
  },
  {
    name: 'a member of the body',
    source: field('transfer.reference'),
    withKey: (key) => ({ body: `{"transfer":{"reference":"${key}"}}` }),
  },
  {
    name: 'a function of the request',
    source: ({ headers }) => headers.find(([name]) => name === 'x-order')?.[1],
    withKey: (key) => ({ headers: [['x-order', key]], body }),
  },
  {
    name: 'a function that takes its time',
    source: async ({ headers }) => headers.find(([name]) => name === 'x-order')?.[1] ?? null,
    withKey: (key) => ({ headers: [['x-order', key]], body }),
  },
]

describe.each(everywhere)('sources of keys of %s() in the %s profile', (surface, profile) => {
  describe.each(sources)('$name', ({ source, withKey }) => {
    test('is where the key comes from, and Idempotency-Key is a header like any other', async () => {
      const { on } = await setup(database, profile)
      const { send, runs } = on(surface, { key: source })
      await send({ ...withKey('first'), key: '"same"' })
      expect(isReplay(await send({ ...withKey('first'), key: '"other"' }))).toBe(true)
      expect(isReplay(await send({ ...withKey('second'), key: '"same"' }))).toBe(false)
      expect(runs()).toBe(2)
    })

    test('K6 without a key: 400 where it is required, else it runs each time', async () => {
      const { on } = await setup(database, profile)
      const required = on(surface, { key: source, required: true })
      expect(problemOf(await required.send({ body, key: '"k"' }))).toEqual({ status: 400, code: 'key_missing' })
      expect(required.runs()).toBe(0)
      const optional = on(surface, { key: source, required: false })
      await optional.send({ body, key: '"k"' })
      await optional.send({ body, key: '"k"' })
      expect(optional.runs()).toBe(2)
    })

    test('K7 a key that is too long: 400, n=0', async () => {
      const { on } = await setup(database, profile)
      const { send, runs } = on(surface, { key: source, required: false })
      expect(problemOf(await send(withKey('k'.repeat(256))))).toEqual({ status: 400, code: 'key_invalid' })
      expect(runs()).toBe(0)
    })
  })

  test('K7 a member of the body that is no text: 400, n=0', async () => {
    const { on } = await setup(database, profile)
    const { send, runs } = on(surface, { key: field('reference'), required: false })
    expect(problemOf(await send({ body: '{"reference":7}' }))).toEqual({ status: 400, code: 'key_invalid' })
    expect(runs()).toBe(0)
  })

  test('K7 a body that cannot be read, with the key in it: 400, and not an unprotected run, n=0', async () => {
    const { on } = await setup(database, profile)
    const { send, runs } = on(surface, { key: field('reference'), required: false })
    const answer = await send({ body: gzipSync('{"reference":"k"}'), headers: [['Content-Encoding', 'gzip']] })
    expect(problemOf(answer)).toEqual({ status: 400, code: 'key_invalid' })
    expect(runs()).toBe(0)
  })

  test.each([
    ['incomplete', { status: 400, code: 'body_incomplete' }],
    ['too_large', { status: 413, code: 'body_too_large' }],
  ] as const)('K7 a body that did not arrive (%s), with the key in it: that is what it is told, n=0', async (failed, problem) => {
    const { on } = await setup(database, profile)
    const { send, runs } = on(surface, { key: field('reference'), required: false })
    expect(problemOf(await send({ body: '{"reference":"k', arrives: { failed } }))).toEqual(problem)
    expect(runs()).toBe(0)
  })

  test('lets an error of a function out as it is, n=0', async () => {
    const { on } = await setup(database, profile)
    const { send, runs } = on(surface, {
      key: () => {
        throw new Error('no session')
      },
    })
    await expect(send({ body })).rejects.toThrow('no session')
    expect(runs()).toBe(0)
  })
})

describe.each(['ietf', 'stripe'] as const)('an operation that makes its key, in the %s profile', (profile) => {
  test('needs none of the client, does the same input once, and takes the one that is sent', async () => {
    const { operation } = await setup(database, profile)
    const { send, runs } = operation({}, (n) => reply(201, { n }), { key: (input) => `order ${(input as { id: string }).id}` })
    await send({ body: '{"id":"a"}' })
    expect(isReplay(await send({ body: '{"id":"a"}' }))).toBe(true)
    expect(isReplay(await send({ body: '{"id":"b"}' }))).toBe(false)
    expect(isReplay(await send({ body: '{"id":"a"}', key: '"mine"' }))).toBe(false)
    expect(runs()).toBe(3)
  })

  test('K6 may require one all the same', async () => {
    const { operation } = await setup(database, profile)
    const { send, runs } = operation({ required: true }, undefined, { key: () => 'always' })
    expect(problemOf(await send({ body }))).toEqual({ status: 400, code: 'key_missing' })
    expect(runs()).toBe(0)
  })

  test.each([
    ['empty', ''],
    ['too long', 'k'.repeat(256)],
  ])('K7 a key that it makes is %s: 400, n=0', async (_, made) => {
    const { operation, keys } = await setup(database, profile)
    const { send, runs } = operation({}, undefined, { key: () => made })
    expect(problemOf(await send({ body }))).toEqual({ status: 400, code: 'key_invalid' })
    expect(runs()).toBe(0)
    expect(await keys()).toBe(0)
  })
})
