import { validateHeaderName, validateHeaderValue } from 'node:http'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { codeOf } from '../../test/support/code-of.js'
import { type Answer, bodyOf, checkAnswer, type HeaderPair, reply, withinCap } from './answer.js'

const textOf = ({ body }: Answer) => new TextDecoder().decode(body)

const whole: Answer = { status: 200, headers: [], body: new Uint8Array() }

describe('reply', () => {
  test('makes JSON of a value and says so', () => {
    const answer = reply(201, { id: 'order-1' })
    expect(answer.status).toBe(201)
    expect(answer.headers).toEqual([['content-type', 'application/json']])
    expect(textOf(answer)).toBe('{"id":"order-1"}')
  })

  test('makes JSON of null, false, zero and the empty text', () => {
    expect([null, false, 0, ''].map((value) => textOf(reply(200, value)))).toEqual(['null', 'false', '0', '""'])
  })

  test('keeps bytes as they are and gives them no type', () => {
    const bytes = Uint8Array.of(0, 255, 128)
    expect(reply(200, bytes)).toEqual({ status: 200, headers: [], body: bytes })
    expect(reply(200, Buffer.from('hi')).headers).toEqual([])
  })

  test('has an empty body and no type without a body', () => {
    expect(reply(204)).toEqual({ status: 204, headers: [], body: new Uint8Array() })
    expect(reply(303, undefined, { location: '/orders/1' })).toEqual({
      status: 303,
      headers: [['location', '/orders/1']],
      body: new Uint8Array(),
    })
  })

  test('leaves a content type of the caller’s own alone, in any case', () => {
    expect(reply(400, {}, { 'Content-Type': 'application/problem+json' }).headers).toEqual([['Content-Type', 'application/problem+json']])
  })

  test('keeps headers in order and names that occur twice', () => {
    const pairs: HeaderPair[] = [
      ['link', '<a>'],
      ['x-b', ''],
      ['link', '<b>'],
    ]
    expect(reply(204, undefined, pairs).headers).toEqual(pairs)
    expect(reply(204, undefined, { link: ['<a>', '<b>'], 'x-b': 'c' }).headers).toEqual([
      ['link', '<a>'],
      ['link', '<b>'],
      ['x-b', 'c'],
    ])
  })

  test('does not change with the list of headers it was given', () => {
    const pairs: HeaderPair[] = [['x-a', '1']]
    const answer = reply(204, undefined, pairs)
    pairs.push(['x-b', '2'])
    expect(answer.headers).toEqual([['x-a', '1']])
  })

  test('refuses a body that is not JSON', () => {
    const cycle: { self?: unknown } = {}
    cycle.self = cycle
    for (const body of [cycle, 1n, () => 1, Symbol('x')]) expect(codeOf(() => reply(200, body))).toBe('answer_invalid')
  })
})

describe('bodyOf', () => {
  test('gives back what JSON makes of the body', () => {
    fc.assert(
      fc.property(fc.jsonValue() as fc.Arbitrary<unknown>, (value) => {
        expect(bodyOf(reply(200, value))).toEqual(JSON.parse(JSON.stringify(value)))
      }),
    )
  })

  test('gives a date back as the text that a replay sees', () => {
    expect(bodyOf(reply(200, { at: new Date(0) }))).toEqual({ at: '1970-01-01T00:00:00.000Z' })
  })

  test('gives nothing for an empty body', () => {
    expect(bodyOf(reply(204))).toBe(undefined)
  })

  test('refuses an answer whose body was not kept', () => {
    expect(codeOf(() => bodyOf(withinCap(reply(200, 'four'), 3)))).toBe('answer_body_omitted')
    expect(codeOf(() => bodyOf({ ...whole, omittedBytes: 0 }))).toBe('answer_body_omitted')
  })
})

describe('withinCap', () => {
  test('leaves a body of exactly the cap alone', () => {
    const answer = reply(200, Buffer.from('four'), { 'x-a': '1' })
    expect(withinCap(answer, 4)).toBe(answer)
  })

  test('takes a larger body out and says how large it was', () => {
    const answer = withinCap(reply(201, Buffer.from('fives'), { 'x-a': '1' }), 4)
    expect(answer).toEqual({ status: 201, headers: [['x-a', '1']], body: new Uint8Array(), omittedBytes: 5 })
  })

  test('keeps an empty body under a cap of zero', () => {
    expect(withinCap(reply(204), 0)).not.toHaveProperty('omittedBytes')
  })
})

describe('checkAnswer', () => {
  test('returns the very answer that can be stored', () => {
    const answer = { ...whole, extra: true }
    expect(checkAnswer(answer)).toBe(answer)
  })

  test('accepts every status from 200 to 599 and no other', () => {
    for (const status of [200, 201, 404, 599]) expect(codeOf(() => checkAnswer({ ...whole, status }))).toBe(null)
    for (const status of [199, 100, 600, 0, -200, 200.5, Number.NaN, Number.POSITIVE_INFINITY, '200', null, undefined]) {
      expect(codeOf(() => checkAnswer({ ...whole, status: status as number }))).toBe('answer_invalid')
    }
  })

  test.each<[unknown]>([[undefined], [null], ['ok'], [200], [true], [() => whole], [{}], [[]], [new Date(0)]])('refuses %o', (value) => {
    expect(codeOf(() => checkAnswer(value as Answer))).toBe('answer_invalid')
  })

  test.each<[unknown]>([['text'], [[1, 2]], [null], [undefined], [new ArrayBuffer(1)], [new Uint16Array(1)]])(
    'refuses %o as a body',
    (body) => {
      expect(codeOf(() => checkAnswer({ ...whole, body: body as Uint8Array }))).toBe('answer_invalid')
    },
  )

  test.each<[unknown]>([
    [{ 'x-a': '1' }],
    [undefined],
    [['x-a: 1']],
    [[null]],
    [[[]]],
    [[['x-a']]],
    [[['x-a', 1]]],
    [[[1, 'x']]],
    [[['x-a', ['1']]]],
  ])('refuses %o as headers', (headers) => {
    expect(codeOf(() => checkAnswer({ ...whole, headers: headers as HeaderPair[] }))).toBe('answer_invalid')
  })

  test('accepts a size of an omitted body, and nothing else in its place', () => {
    for (const omittedBytes of [0, 1, 2 ** 40]) expect(codeOf(() => checkAnswer({ ...whole, omittedBytes }))).toBe(null)
    for (const omittedBytes of [-1, 0.5, Number.NaN, '1', null, 1n]) {
      expect(codeOf(() => checkAnswer({ ...whole, omittedBytes: omittedBytes as number }))).toBe('answer_invalid')
    }
  })

  test('finds a bad header behind good ones', () => {
    const headers: HeaderPair[] = [
      ['x-a', '1'],
      ['x-b', 'a\r\nset-cookie: b'],
    ]
    expect(() => checkAnswer({ ...whole, headers })).toThrow(/header x-b cannot be sent/)
  })

  test('refuses a header whose name is a bigint', () => {
    expect(codeOf(() => checkAnswer({ ...whole, headers: [[1n, 'x']] as never }))).toBe('answer_invalid')
  })

  test('accepts exactly the headers that Node would send', () => {
    const edges = fc.constantFrom(...'aZ0-_!:; \t\r\n\u0000\u001f ~\u007f\u0080ÿĀ😀')
    const text = fc.string({ unit: fc.oneof(edges, fc.string({ unit: 'binary', minLength: 1, maxLength: 1 })), maxLength: 3 })
    const pairs = fc.oneof(fc.tuple(text, fc.constant('1')), fc.tuple(fc.constant('x-a'), text))
    fc.assert(
      fc.property(pairs, ([name, value]) => {
        expect(codeOf(() => checkAnswer({ ...whole, headers: [[name, value]] }))).toBe(nodeSends(name, value) ? null : 'answer_invalid')
      }),
      { numRuns: 2_000 },
    )
  })
})

function nodeSends(name: string, value: string): boolean {
  try {
    validateHeaderName(name)
    validateHeaderValue(name, value)
    return true
  } catch {
    return false
  }
}
