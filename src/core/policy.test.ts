import { describe, expect, test } from 'vitest'
import { codeOf } from '../../test/support/code-of.js'
import { type PolicyOptions, policyResolver, resolvePolicy, type ScopePolicy, scopeOf } from './policy.js'

const minute = 60_000
const hour = 60 * minute

describe('resolvePolicy', () => {
  test('has the published defaults', () => {
    expect(resolvePolicy({})).toEqual({
      leaseMs: 15_000,
      maxRunMs: 15 * minute,
      retention: { ms: 24 * hour, from: 'creation', floorMs: hour },
    })
  })

  test('prefers the options of a piece of work to the defaults of all', () => {
    const defaults: PolicyOptions = { lease: '30s', maxRun: '1h', retention: '7d', retentionFloor: '2h' }
    expect(resolvePolicy({}, defaults)).toEqual({
      leaseMs: 30_000,
      maxRunMs: hour,
      retention: { ms: 168 * hour, from: 'creation', floorMs: 2 * hour },
    })
    expect(resolvePolicy({ lease: '5s', retention: 'forever' }, defaults)).toEqual({
      leaseMs: 5_000,
      maxRunMs: hour,
      retention: { ms: Number.POSITIVE_INFINITY, from: 'creation', floorMs: 2 * hour },
    })
  })

  test.each(['lease', 'maxRun', 'retention', 'retentionFloor'] as const)('refuses a wrong %s in options and defaults', (name) => {
    for (const wrong of [0, -1, '-5s', '200y', 'soon', Number.NaN, Number.POSITIVE_INFINITY]) {
      expect(codeOf(() => resolvePolicy({ [name]: wrong } as PolicyOptions))).toBe('duration_invalid')
      expect(codeOf(() => resolvePolicy({}, { [name]: wrong } as PolicyOptions))).toBe('duration_invalid')
    }
    expect(() => resolvePolicy({ [name]: 'soon' } as never)).toThrow(new RegExp(`^${name} is 'soon'`))
  })
})

describe('scopeOf', () => {
  const endpoint = { method: 'post', path: '/Orders' }

  test('separates endpoints by method and path', () => {
    expect(scopeOf('endpoint', endpoint)).toBe('POST /Orders')
    expect(scopeOf('endpoint', { ...endpoint, method: 'PUT' })).toBe('PUT /Orders')
  })

  test('keeps endpoints apart whose paths are longer than a scope', () => {
    const long = (end: string) => scopeOf('endpoint', { method: 'post', path: `/${'x'.repeat(300)}${end}` })
    expect(long('a')).toMatch(/^POST sha256:[0-9a-f]{64}$/)
    expect(long('a')).toBe(long('a'))
    expect(long('a')).not.toBe(long('b'))
    expect(scopeOf('endpoint', { method: 'POST', path: `/${'x'.repeat(249)}` })).toHaveLength(255)
    expect(scopeOf('endpoint', { method: 'POST', path: `/${'x'.repeat(250)}` })).toContain('sha256:')
  })

  test('lets all keys of a tenant meet', () => {
    expect(scopeOf('tenant', endpoint)).toBe('*')
  })

  test('takes a name of one’s own', () => {
    expect(scopeOf({ name: 'orders.create' }, endpoint)).toBe('orders.create')
  })

  test.each<[unknown]>([[undefined], [null], ['everything'], [{}], [{ name: 1 }], [7], [[]]])('refuses %o', (policy) => {
    expect(codeOf(() => scopeOf(policy as ScopePolicy, endpoint))).toBe('option_invalid')
  })
})

describe('policyResolver', () => {
  const defaults: PolicyOptions = { lease: '30s', retention: '7d' }

  test('says what resolvePolicy says, however often and in whatever order it is asked', () => {
    const policyOf = policyResolver(defaults)
    const asked: PolicyOptions[] = [{}, { lease: '5s' }, { maxRun: 1 }, { retention: 'forever' }, { retentionFloor: '1m' }]
    for (let lease = 1; lease <= 100; lease += 1) asked.push({ lease })
    for (const options of [...asked, ...asked]) expect(policyOf(options)).toEqual(resolvePolicy(options, defaults))
  })

  test('works the same options out once, and refuses wrong ones each time', () => {
    const policyOf = policyResolver(defaults)
    expect(policyOf({ lease: '5s', maxRun: '1m' })).toBe(policyOf({ maxRun: '1m', lease: '5s' }))
    for (let times = 0; times < 2; times += 1) expect(codeOf(() => policyOf({ lease: 0 }))).toBe('duration_invalid')
  })
})
