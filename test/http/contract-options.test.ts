import { describe, expect, test } from 'vitest'
import { idempotencyOf } from '../../src/http/idempotency.js'
import { field, header } from '../../src/http/key-source.js'
import { serviceOf } from '../../src/http/serve.js'
import { statusOf } from '../../src/http/status.js'
import { createOnce, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { codeOf } from '../support/code-of.js'
import { useDatabase } from '../support/postgres/database.js'

const database = useDatabase()

function setup() {
  const once = createOnce({ store: postgresStore(fromPg(database.pool)) })
  const operation = once.operation('orders.create', {}, () => reply(201))
  const valid = { tenant: 'single', afterFailure: 'rerun' } as const
  return {
    /** The code of the error that these options are, on top of valid ones. */
    idempotency: (options: object) => codeOf(() => idempotencyOf(once, { ...valid, ...options } as never)),
    serve: (options: object) => codeOf(() => serviceOf(operation, { tenant: 'single', ...options } as never)),
    once,
    operation,
  }
}

const wrongForBoth: [string, object][] = [
  ['no tenant', { tenant: undefined }],
  ['a tenant that is a name', { tenant: 'acme' }],
  ['a profile that there is not', { profile: 'paypal' }],
  ['a profile without a dialect', { profile: { name: 'mine' } }],
  ['whenInProgress', { whenInProgress: 'queue' }],
  ['fingerprint', { fingerprint: 'none' }],
  ['maxBodyBytes that is negative', { maxBodyBytes: -1 }],
  ['maxBodyBytes that is a text', { maxBodyBytes: '1mb' }],
  ['problemBase that is no address', { problemBase: '/problems' }],
  ['a key that is the name of a header', { key: 'Idempotency-Key' }],
  ['a key that is something else', { key: {} }],
  ['required that is a text', { required: 'yes' }],
]

const wrongForIdempotency: [string, object][] = [
  ['no afterFailure', { afterFailure: undefined }],
  ['afterFailure', { afterFailure: 'retry' }],
  ['methods that are a text', { methods: 'POST' }],
  ['methods with something else in them', { methods: [7] }],
  ['scope', { scope: 'service' }],
  ['scope with a name that is no text', { scope: { name: 7 } }],
  ['scope with an empty name', { scope: { name: '' } }],
  ['failOpen that is a text', { failOpen: 'no' }],
  ['retention', { retention: { for: '1h', from: 'now' } }],
]

const accepting = { respond: 'async', location: (id: string) => `/operations/${id}` }

const wrongForAsync: [string, object][] = [
  ['respond', { respond: 'later' }],
  ['no location', { ...accepting, location: undefined }],
  ['a location that is an address', { ...accepting, location: '/operations' }],
]

const wrongForStatus: [string, object][] = [
  ['no tenant', { tenant: undefined }],
  ['a profile that there is not', { profile: 'paypal' }],
  ['problemBase that is no address', { problemBase: '/problems' }],
  ['an id that is a text', { id: 'id' }],
]

describe('option_invalid at construction', () => {
  test.each(wrongForAsync)("serve() with respond: 'async': %s", (_, options) => {
    expect(setup().serve(options)).toBe('option_invalid')
  })

  test("serve() with respond: 'async': local work, which nobody can resume", () => {
    const local = setup().once.local('local', {}, () => reply(201))
    expect(() => serviceOf(local, { tenant: 'single', respond: 'async', location: (id) => id })).toThrow(
      /^respond is 'async', but local is local work/,
    )
  })

  test.each(wrongForStatus)('status(): %s', (_, options) => {
    const { once } = setup()
    expect(codeOf(() => statusOf(once, { tenant: 'single', ...options } as never))).toBe('option_invalid')
  })

  test('status(): something else than a once', () => {
    expect(codeOf(() => statusOf({} as never, { tenant: 'single' }))).toBe('option_invalid')
  })

  test.each([
    ['serve()', { pollAfter: 'soon' }],
    ['status()', { pollAfter: -1 }],
  ])('%s: pollAfter that is no duration', (_, options) => {
    const { serve, once } = setup()
    expect(serve({ ...accepting, ...options })).toBe('duration_invalid')
    expect(codeOf(() => statusOf(once, { tenant: 'single', ...options } as never))).toBe('duration_invalid')
  })

  test.each(wrongForBoth)('idempotency(): %s', (_, options) => {
    expect(setup().idempotency(options)).toBe('option_invalid')
  })

  test.each(wrongForBoth)('serve(): %s', (_, options) => {
    expect(setup().serve(options)).toBe('option_invalid')
  })

  test.each(wrongForIdempotency)('idempotency(): %s', (_, options) => {
    expect(setup().idempotency(options)).toBe('option_invalid')
  })

  test('serve(): input that is no function', () => {
    expect(setup().serve({ input: 'body' })).toBe('option_invalid')
  })

  test.each([undefined, null, {}, 'orders.create'])('serve(): %s instead of an operation', (operation) => {
    expect(codeOf(() => serviceOf(operation as never, { tenant: 'single' }))).toBe('option_invalid')
  })

  test.each([undefined, null, {}])('idempotency(): %s instead of what createOnce() made', (once) => {
    expect(codeOf(() => idempotencyOf(once as never, { tenant: 'single', afterFailure: 'rerun' }))).toBe('option_invalid')
  })

  test('no options at all', () => {
    const { once, operation } = setup()
    expect(codeOf(() => idempotencyOf(once, undefined as never))).toBe('option_invalid')
    expect(codeOf(() => serviceOf(operation, undefined as never))).toBe('option_invalid')
  })

  test.each([
    ['header() without a name', () => header('')],
    ['header() with a name that cannot be one', () => header('Idempotency Key')],
    ['header() with a syntax that there is not', () => header('Idempotency-Key', { syntax: 'loose' as never })],
    ['field() without a name', () => field('')],
    ['field() with a hole in its path', () => field('a..b')],
  ])('%s', (_, make) => {
    expect(codeOf(make)).toBe('option_invalid')
  })
})

describe('duration_invalid at construction', () => {
  test.each(['wait', 'lease', 'maxRun', 'retention', 'retentionFloor'])('idempotency(): %s', (name) => {
    expect(setup().idempotency({ [name]: 'soon' })).toBe('duration_invalid')
  })

  test('serve(): wait', () => {
    expect(setup().serve({ wait: '-1s' })).toBe('duration_invalid')
  })
})

test('takes every option that is right', () => {
  const right = {
    tenant: () => 'acme',
    key: header('X-Key'),
    required: true,
    profile: 'stripe',
    whenInProgress: 'wait',
    wait: '30s',
    maxBodyBytes: 0,
    fingerprint: 'parsed',
    problemBase: 'https://api.example.com/problems/',
  }
  const { idempotency, serve } = setup()
  expect(serve({ ...right, input: () => null })).toBe(null)
  const more = { methods: ['PUT'], scope: { name: 'x' }, failOpen: true, lease: '5s', retention: 'forever', retentionFloor: 1 }
  expect(idempotency({ ...right, ...more })).toBe(null)
})
