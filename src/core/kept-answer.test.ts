import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { codeOf } from '../../test/support/code-of.js'
import { type Answer, type HeaderPair, reply } from './answer.js'
import { answerKeeper, type KeepOptions } from './kept-answer.js'

const keeper = (options: Partial<KeepOptions> = {}) => answerKeeper({ maxAnswerBytes: 1000, ...options })
const headersKept = (headers: HeaderPair[], options: Partial<KeepOptions> = {}) => keeper(options)(reply(204, undefined, headers)).headers

/** What is kept, and the errors that were told. */
function keepTelling(answer: Answer, redact: unknown): { kept: Answer; errors: unknown[] } {
  const errors: unknown[] = []
  const kept = keeper({ redact: redact as KeepOptions['redact'] })(answer, (error) => errors.push(error))
  return { kept, errors }
}

describe('the headers that are kept', () => {
  test.each([
    'Connection',
    'Keep-Alive',
    'Proxy-Authenticate',
    'Proxy-Authorization',
    'Proxy-Connection',
    'TE',
    'Trailer',
    'Transfer-Encoding',
    'Upgrade',
    'Content-Length',
    'Date',
    'Age',
    'Set-Cookie',
    'Set-Cookie2',
    'X-Request-Id',
    'X-Correlation-Id',
    'X-Amzn-RequestId',
    'X-Amzn-Trace-Id',
    'CF-Ray',
    'traceparent',
    'tracestate',
    'Server-Timing',
    'Idempotent-Replayed',
    'Oncekey-Sealed',
  ])('do not include %s, in any case', (name) => {
    for (const spelled of [name, name.toLowerCase(), name.toUpperCase()]) {
      expect(
        headersKept([
          [spelled, '1'],
          ['x-other', '2'],
          [spelled, '3'],
        ]),
      ).toEqual([['x-other', '2']])
    }
  })

  test('include all others as they are, in their order, repeated ones too', () => {
    const headers: HeaderPair[] = [
      ['Location', '/orders/1'],
      ['link', '</a>'],
      ['ETag', '"1"'],
      ['link', '</b>'],
      ['Content-Type', 'text/plain'],
      ['cache-control', 'no-store'],
      ['www-authenticate', 'Basic'],
      ['x-empty', ''],
    ]
    expect(headersKept(headers)).toEqual(headers)
  })

  test('do not change any more when the caller changes theirs', () => {
    const customer: [string, string] = ['x-customer', 'a']
    const kept = headersKept([customer])
    customer[1] = 'b'
    expect(kept).toEqual([['x-customer', 'a']])
  })

  test('do not include what a Connection header nominates, in any of its lines', () => {
    const headers: HeaderPair[] = [
      ['X-Hop', '1'],
      ['Connection', 'close , x-HOP'],
      ['x-stays', '2'],
      ['x-other-hop', '3'],
      ['connection', 'X-Other-Hop'],
    ]
    expect(headersKept(headers)).toEqual([['x-stays', '2']])
  })

  test('do not include what the user names, in any case', () => {
    const headers: HeaderPair[] = [
      ['X-Session', 'secret'],
      ['x-token', 'secret'],
      ['x-tokens', '3'],
    ]
    expect(headersKept(headers, { neverStore: ['x-session', 'X-TOKEN'] })).toEqual([['x-tokens', '3']])
  })

  test('tell the id of the request under a name of its own', () => {
    expect(headersKept([['Request-Id', 'req_1']])).toEqual([['original-request', 'req_1']])
    // An answer that was a replay itself: what did the work for us is the request that we made.
    const passedOn: HeaderPair[] = [
      ['Original-Request', 'req_0'],
      ['Request-Id', 'req_1'],
    ]
    expect(headersKept(passedOn)).toEqual([['original-request', 'req_1']])
    expect(headersKept([['Original-Request', 'req_0']])).toEqual([['original-request', 'req_0']])
  })

  test.each([['request-id'], ['original-request']])('do not tell the id of the request to who never stores %s', (name) => {
    expect(headersKept([['request-id', 'req_1']], { neverStore: [name] })).toEqual([])
  })

  test.each<[string, unknown]>([
    ['a text', 'set-cookie'],
    ['an empty name', ['']],
    ['a name with a colon', ['x-token:']],
    ['a pattern', [/x-.*/]],
    ['nothing', null],
  ])('are refused as %s at construction', (_, neverStore) => {
    expect(codeOf(() => keeper({ neverStore: neverStore as string[] }))).toBe('option_invalid')
  })
})

describe('the body that is kept', () => {
  test('is whole up to the cap, and omitted above', () => {
    const keep = keeper({ maxAnswerBytes: 4 })
    expect(keep(reply(200, Uint8Array.of(1, 2, 3, 4)))).toEqual(reply(200, Uint8Array.of(1, 2, 3, 4)))
    expect(keep(reply(200, new Uint8Array(5), { 'x-a': '1', date: 'now' }))).toEqual({
      status: 200,
      headers: [['x-a', '1']],
      body: new Uint8Array(),
      omittedBytes: 5,
    })
  })

  test('is measured after it was redacted', () => {
    const keep = keeper({ maxAnswerBytes: 4, redact: (answer) => ({ ...answer, body: answer.body.subarray(0, 4) }) })
    expect(keep(reply(200, new Uint8Array(5)))).toEqual(reply(200, new Uint8Array(4)))
    const longer = keeper({ maxAnswerBytes: 4, redact: (answer) => ({ ...answer, body: new Uint8Array(6) }) })
    expect(longer(reply(200, new Uint8Array(4)))).toEqual({ ...reply(200), omittedBytes: 6 })
  })

  test('stays omitted when the work did not bring it whole', () => {
    const partial: Answer = { status: 200, headers: [['x-a', '1']], body: new Uint8Array(), omittedBytes: 9 }
    expect(keeper()(partial)).toEqual(partial)
    expect(keepTelling(partial, ({ status }: Answer) => reply(status, 'redacted')).kept).toEqual({
      status: 200,
      headers: [['content-type', 'application/json']],
      body: new Uint8Array(),
      omittedBytes: 9,
    })
    expect(keepTelling(partial, () => null).kept).toEqual({ status: 200, headers: [], body: new Uint8Array(), omittedBytes: 9 })
  })
})

describe('redact', () => {
  const secret = reply(201, { id: 1, token: 'secret' }, { location: '/1', 'x-token': 'secret', 'set-cookie': 'a=b' })

  test('decides what is kept, of what may be kept at all', () => {
    let seen: Answer | undefined
    const redact = (answer: Answer) => {
      seen = answer
      return reply(answer.status, { id: 1, token: '…' }, { location: '/1', 'set-cookie': 'a=b' })
    }
    const { kept, errors } = keepTelling(secret, redact)
    expect(seen?.headers.map(([name]) => name)).toEqual(['location', 'x-token', 'content-type'])
    expect(kept).toEqual(reply(201, { id: 1, token: '…' }, { location: '/1' }))
    expect(errors).toEqual([])
  })

  test('cannot change the answer of the first caller, not even by writing into its bytes', () => {
    for (const body of [Buffer.from('a secret'), new TextEncoder().encode('a secret')]) {
      const answer = reply(200, body, { 'x-token': 'secret' })
      const before = structuredClone(answer)
      const { kept } = keepTelling(answer, (given: { headers: [string, string][]; body: Uint8Array }) => {
        given.body.fill(0)
        for (const pair of given.headers) pair[1] = '-'
        return given
      })
      expect(kept).toEqual(reply(200, new Uint8Array(8), { 'x-token': '-' }))
      expect([answer.headers, [...answer.body]]).toEqual([before.headers, [...before.body]])
    }
  })

  const failures: [string, unknown][] = [
    [
      'throws',
      () => {
        throw new Error('a mistake')
      },
    ],
    ['returns nothing', () => undefined],
    ['returns null', () => null],
    ['returns a promise', async (answer: Answer) => answer],
    ['returns a promise that fails', async () => Promise.reject(new Error('a mistake'))],
    ['returns a status that is none', (answer: Answer) => ({ ...answer, status: 0 })],
    ['returns a header that cannot be sent', (answer: Answer) => ({ ...answer, headers: [['x', 'a\nb']] })],
    ['returns a text for a body', (answer: Answer) => ({ ...answer, body: 'secret' })],
    ['returns a body under a status that has none', (answer: Answer) => ({ ...answer, status: 204 })],
    ['returns a size that is none', (answer: Answer) => ({ ...answer, omittedBytes: 'many' })],
    [
      'returns something that cannot be looked at',
      () =>
        new Proxy(
          {},
          {
            get() {
              throw new Error('look away')
            },
          },
        ),
    ],
  ]

  test.each(failures)('that %s leaves the status and nothing else, and is told', async (_, redact) => {
    const { kept, errors } = keepTelling(secret, redact)
    expect(kept).toEqual({ status: 201, headers: [], body: new Uint8Array(), omittedBytes: secret.body.length })
    expect(errors).toHaveLength(1)
    // A rejection that nobody handles would fail the run.
    await new Promise((resolve) => setImmediate(resolve))
  })

  test('that fails on an answer without a body says that the answer is not whole', () => {
    const redact = ({ body }: Answer) => reply(200, JSON.parse(new TextDecoder().decode(body)))
    expect(keepTelling(reply(204), redact).kept).toEqual({ status: 204, headers: [], body: new Uint8Array(), omittedBytes: 0 })
  })

  test('is refused at construction if it is no function', () => {
    for (const redact of ['token', {}, null]) expect(codeOf(() => keeper({ redact: redact as never }))).toBe('option_invalid')
  })

  test('never lets a secret pass when it takes it out, whatever the answer is', () => {
    const header = fc.tuple(
      fc.constantFrom('x-token', 'set-cookie', 'location', 'request-id', 'connection'),
      fc.stringMatching(/^[a-z]{1,9}$/),
    )
    fc.assert(
      fc.property(fc.array(header), fc.uint8Array({ maxLength: 50 }), fc.boolean(), (headers, body, fails) => {
        const answer = reply(200, body, headers as HeaderPair[])
        const { kept } = keepTelling(answer, (given: Answer) => {
          if (fails) throw new Error('a mistake')
          return { ...given, headers: given.headers.filter(([name]) => name !== 'x-token'), body: new Uint8Array() }
        })
        expect(kept.headers.filter(([name]) => name !== 'location' && name !== 'original-request')).toEqual([])
        expect(kept.body).toEqual(new Uint8Array())
      }),
    )
  })
})
