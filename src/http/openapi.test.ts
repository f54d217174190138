import { Ajv2020 } from 'ajv/dist/2020.js'
import { describe, expect, test } from 'vitest'
import { reply } from '../core/answer.js'
import { field, header } from './key-source.js'
import { describeIdempotency, describeStatus, type ResponseObject, type RouteOptions, withIdempotency } from './openapi.js'
import { ietf } from './profiles.js'

const ajv = new Ajv2020({ strict: true, formats: { uri: URL.canParse, 'date-time': (text) => new Date(text).toISOString() === text } })

const routes: [name: string, options: RouteOptions][] = [
  ['an operation', {}],
  ['an operation in the dialect of Stripe', { profile: 'stripe' }],
  ['an operation that makes its key', { operation: { makesKey: true } }],
  ['a handler that may run again', { afterFailure: 'rerun', tenant: (request: Request) => request.url }],
  ['a handler whose failures are stored', { afterFailure: 'store', required: true }],
  ['a handler whose failures are parked', { afterFailure: 'park', whenInProgress: 'accepted' }],
  ['a handler in the dialect of Stripe', { afterFailure: 'store', profile: 'stripe', whenInProgress: 'wait' }],
  ['a key in the body', { key: field('transfer.reference') }],
  ['a key from anywhere', { key: () => 'k' }],
  ['pages of its own', { problemBase: 'https://api.example.com/problems/' }],
  ['an operation that is left to workers', { respond: 'async', pollAfter: '5s' }],
  ['an operation that is left to workers, in the dialect of Stripe', { respond: 'async', profile: 'stripe' }],
  ['a dialect of its own', { profile: { ...ietf, name: 'plain', render: ({ code }) => reply(418, Buffer.from(code)) } }],
]

const mediaTypesOf = (responses: Readonly<Record<string, ResponseObject>>) =>
  Object.values(responses).flatMap(({ content = {} }) => Object.entries(content))

describe.each(routes)('%s', (_, options) => {
  test('its schemas are JSON Schema 2020-12, as OpenAPI 3.1 wants them, and its examples fit', () => {
    for (const [, { schema, examples }] of mediaTypesOf(describeIdempotency(options).responses)) {
      const fits = ajv.compile(schema)
      for (const { value } of Object.values(examples)) expect([fits(value), fits.errors]).toEqual([true, null])
    }
  })

  test('its objects have the members that OpenAPI 3.1 gives them, and no others', () => {
    const { parameter, responses, headers } = describeIdempotency(options)
    const allHeaders = { ...headers, ...Object.assign({}, ...Object.values(responses).map((response) => response.headers)) }
    for (const response of Object.values(responses)) {
      expect(Object.keys(response).sort()).toEqual(['content', 'description', 'headers'])
      expect(response.description).not.toBe('')
    }
    for (const [type, media] of mediaTypesOf(responses)) {
      expect(type).toMatch(/^[a-z]+\/[a-z+.-]+$/)
      expect(Object.keys(media).sort()).toEqual(['examples', 'schema'])
      for (const example of Object.values(media.examples)) expect(Object.keys(example).sort()).toEqual(['summary', 'value'])
    }
    for (const [name, entry] of Object.entries(allHeaders) as [string, object][]) {
      expect(name).toMatch(/^[A-Z][A-Za-z-]+$/)
      expect(Object.keys(entry).filter((member) => !['description', 'required', 'schema'].includes(member))).toEqual([])
    }
    expect(Object.keys(responses).filter((status) => !/^[2-5]\d\d$/.test(status))).toEqual([])
    if (parameter) expect(Object.keys(parameter).sort()).toEqual(['description', 'example', 'in', 'name', 'required', 'schema'])
    // It is data: what goes through a file is the same afterwards.
    expect(JSON.parse(JSON.stringify(describeIdempotency(options)))).toEqual(describeIdempotency(options))
  })
})

describe('the parameter', () => {
  test('is the header, with the length of a key', () => {
    expect(describeIdempotency({}).parameter).toMatchObject({
      name: 'Idempotency-Key',
      in: 'header',
      schema: { type: 'string', minLength: 1, maxLength: 257 },
    })
    expect(describeIdempotency({ key: header('X-Request-Key') }).parameter?.name).toBe('X-Request-Key')
  })

  test.each<[RouteOptions, boolean, RegExp]>([
    [{}, true, /without a key is refused/],
    [{ required: false }, false, /carries out each request anew/],
    [{ operation: { makesKey: true } }, false, /makes one from the request/],
    [{ profile: 'stripe' }, false, /carries out each request anew/],
    [{ afterFailure: 'rerun' }, false, /carries out each request anew/],
    [{ afterFailure: 'rerun', required: true }, true, /without a key is refused/],
  ])('%o: required is %s', (options, required, words) => {
    const { parameter } = describeIdempotency(options)
    expect(parameter?.required).toBe(required)
    expect(parameter?.description).toMatch(words)
  })

  test.each<[string, RouteOptions, RegExp[]]>([
    ['the quotes, which may be left out', {}, [/1 to 255 characters in double quotes \(RFC 9651\)/, /quotes may be left out/]],
    ['a body member', { key: field('transfer.reference') }, [/member `transfer\.reference` of the JSON body/]],
    ['a key that nobody can describe', { key: () => 'k' }, [/The service takes the idempotency key from the request/]],
    ['what counts as the same request', {}, [/method, path, query string, media type and body/, /order of members/]],
    ['keys of one endpoint', { afterFailure: 'rerun' }, [/another endpoint is another key/]],
    ['keys of a tenant', { afterFailure: 'rerun', profile: 'stripe' }, [/another endpoint is refused/]],
    ['a conflict', {}, [/the answer is 409/, /Retry-After/]],
    ['a wait', { whenInProgress: 'wait', wait: '1500ms' }, [/wait for its answer, 1500 milliseconds at most/]],
    ['work that is left to workers', { respond: 'async' }, [/accepted with 202/, /`Location` is where/, /duplicates get the same/]],
    ['an acceptance', { whenInProgress: 'accepted' }, [/the answer is 202/]],
  ])('tells of %s', (_, options, words) => {
    const { description, parameter } = describeIdempotency(options)
    for (const word of words) expect(description).toMatch(word)
    expect([undefined, description]).toContain(parameter?.description)
  })

  test('is strict where the syntax is', () => {
    expect(describeIdempotency({ key: header('Idempotency-Key', { syntax: 'strict' }) }).description).not.toMatch(/left out/)
  })

  test('is not there for a key that is no header', () => {
    expect(describeIdempotency({ key: field('reference') }).parameter).toBeUndefined()
    expect(describeIdempotency({ key: () => 'k' }).parameter).toBeUndefined()
  })
})

test.each([
  [undefined, '24 hours from the first request'],
  ['90s', '90 seconds from the first request'],
  ['1h', '1 hour from the first request'],
  ['72h', '3 days from the first request'],
  [{ for: '30d', from: 'completion' }, '30 days from the first answer'],
  ['forever', 'forever'],
] as const)('a retention of %o in words', (retention, words) => {
  const described = describeIdempotency(retention === undefined ? {} : { retention })
  expect(described.retention).toBe(words)
  expect(described.description).toContain(words === 'forever' ? 'A key is remembered forever.' : `A key is remembered for ${words};`)
})

test('wrong options are refused, as the layer refuses them', () => {
  expect(() => describeIdempotency({ whenInProgress: 'never' as 'wait' })).toThrow('whenInProgress')
  expect(() => describeIdempotency({ retention: 'long' as '1h' })).toThrow('retention')
})

describe('withIdempotency', () => {
  const order = { summary: 'Create an order', responses: { 201: { description: 'The order' } } }

  test('adds the header, the responses, the marks of a replay and the retention', () => {
    const described = withIdempotency(order, { retention: '72h' })
    const { parameter, responses, headers } = describeIdempotency({ retention: '72h' })
    expect(described).toEqual({
      summary: 'Create an order',
      'x-idempotency-retention': '3 days from the first request',
      parameters: [parameter],
      responses: { ...responses, 201: { description: 'The order', headers } },
    })
    expect(order).toEqual({ summary: 'Create an order', responses: { 201: { description: 'The order' } } })
  })

  test('an operation with nothing in it', () => {
    expect(withIdempotency({}, {})).toMatchObject({ parameters: [{ name: 'Idempotency-Key' }], responses: { 409: {} } })
  })

  test('keeps the parameters that are there, and adds none of the same name', () => {
    const other = { name: 'Idempotency-Key', in: 'query' }
    expect(withIdempotency({ parameters: [other] }, {}).parameters).toEqual([other, describeIdempotency({}).parameter])
    for (const own of [
      { name: 'idempotency-key', in: 'header', description: 'mine' },
      { $ref: '#/components/parameters/IdempotencyKey' },
      { $ref: '#/components/parameters/idempotency_key' },
    ]) {
      const described = withIdempotency({ parameters: [own], description: 'Mine.' }, {})
      expect(described.parameters).toEqual([own])
      // What the parameter would have said is said here.
      expect(described.description).toBe(`Mine.\n\n${describeIdempotency({}).description}`)
    }
  })

  test('says in the description where a key is that is no header', () => {
    expect(withIdempotency(order, { key: field('reference') })).toMatchObject({
      description: expect.stringContaining('member `reference` of the JSON body'),
    })
    expect(withIdempotency(order, { key: field('reference') })).not.toHaveProperty('parameters')
    expect(withIdempotency(order, {})).not.toHaveProperty('description')
  })

  test('keeps the responses that are there, and adds what they lack', () => {
    const own = {
      description: 'mine',
      headers: { link: { description: 'my own', schema: {} } },
      content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Mine' } } },
    }
    const { responses } = withIdempotency({ responses: { 400: own, 409: { $ref: '#/components/responses/Conflict' } } }, {})
    const standard = describeIdempotency({}).responses
    expect(responses[400]).toEqual({ ...own, headers: { ...own.headers, ...describeIdempotency({}).headers } })
    expect(responses[409]).toEqual({ $ref: '#/components/responses/Conflict' })
    expect(responses[422]).toEqual(standard[422])
    const json = { description: 'mine', content: { 'application/json': {} } }
    expect(withIdempotency({ responses: { 409: json } }, {}).responses[409]).toMatchObject({
      description: 'mine',
      headers: { 'Retry-After': { schema: { type: 'integer', minimum: 1 } } },
      content: { 'application/json': {}, 'application/problem+json': standard[409]?.content?.['application/problem+json'] },
    })
    expect(withIdempotency({ responses: { 409: json } }, {}).responses[409]).not.toHaveProperty('headers.Retry-After.required')
  })

  test('keeps a retention and extensions that are there', () => {
    expect(withIdempotency({ 'x-idempotency-retention': 'a year', 'x-other': 1 }, {})).toMatchObject({
      'x-idempotency-retention': 'a year',
      'x-other': 1,
    })
  })

  test('marks the answers that are kept: those of a handler that may run again are, up to 499', () => {
    const answers = {
      responses: { 201: { description: '' }, 500: { description: '' }, '5XX': { description: '' }, default: { description: '' } },
    }
    const marked = (options: RouteOptions) =>
      Object.entries(withIdempotency(answers, options).responses)
        .filter(
          ([status, response]) => status in answers.responses && 'Idempotent-Replayed' in ((response as ResponseObject).headers ?? {}),
        )
        .map(([status]) => status)
    expect(marked({ afterFailure: 'rerun' })).toEqual(['201', 'default'])
    expect(marked({ afterFailure: 'store' })).toEqual(['201', '500', '5XX', 'default'])
    expect(marked({})).toEqual(['201', '500', '5XX', 'default'])
  })

  test('in the dialect of Stripe answers have the ids of requests', () => {
    expect(withIdempotency(order, { profile: 'stripe' }).responses[201]).toHaveProperty('headers.Original-Request')
    expect(withIdempotency(order, {}).responses[201]).not.toHaveProperty('headers.Original-Request')
  })
})

describe("an operation with respond: 'async'", () => {
  test('publishes a 202 with Location and Retry-After, and no answers of those that wait for the work', () => {
    const { responses } = describeIdempotency({ respond: 'async' })
    const accepted = responses[202]
    expect(accepted?.headers).toMatchObject({ Location: { required: true }, 'Retry-After': { required: true } })
    expect(Object.keys(accepted?.content?.['application/json']?.examples ?? {})).toEqual(['pending', 'processing'])
    expect(accepted?.content?.['application/json']?.schema).toMatchObject({
      required: ['id', 'state'],
      properties: { state: { enum: ['pending', 'processing'] } },
    })
    expect(Object.keys(responses)).not.toContain('409')
    expect(JSON.stringify(responses)).not.toContain('interrupted')
  })

  test('a wrong pollAfter is an error', () => {
    expect(() => describeIdempotency({ respond: 'async', pollAfter: -1 })).toThrow(/pollAfter/)
    expect(() => describeStatus({ pollAfter: -1 })).toThrow(/pollAfter/)
  })
})

describe.each(['ietf', 'stripe'] as const)('the status resource in the %s profile', (profile) => {
  const described = describeStatus({ profile })

  test('publishes its states and its problems, none of them to be cached', () => {
    const examples = Object.entries(described.responses).map(([status, { content = {} }]) => [
      status,
      Object.values(content).flatMap(({ examples }) => Object.keys(examples)),
    ])
    expect(examples).toEqual([
      ['200', ['pending', 'processing']],
      ['404', ['operation_unknown']],
      ['408', ['never_started']],
      ['410', ['operation_expired', 'answer_not_kept']],
      ['500', ['outcome_unknown']],
      ['503', ['store_unavailable']],
    ])
    for (const { headers } of Object.values(described.responses)) {
      expect(headers?.['Cache-Control']).toMatchObject({ required: true, schema: { const: 'no-store' } })
    }
  })

  test('its schemas hold for its examples', () => {
    for (const [, { schema, examples }] of mediaTypesOf(described.responses)) {
      const fits = ajv.compile(schema)
      for (const { value } of Object.values(examples)) expect([fits(value), fits.errors]).toEqual([true, null])
    }
  })

  test('says what its other answers are, and which headers those have', () => {
    expect(described.description).toMatch(/then it is the answer itself/)
    expect(Object.keys(described.headers)).toEqual(
      profile === 'stripe' ? ['Idempotent-Replayed', 'Request-Id', 'Original-Request'] : ['Idempotent-Replayed'],
    )
  })
})
