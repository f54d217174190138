import { describe, expect, test } from 'vitest'
import { reply } from './core/answer.js'
import { isOncekeyError } from './core/errors.js'
import type { KeyClaim } from './core/store.js'
import { createOnce, type OnceOptions } from './create-once.js'
import type { ExecuteOptions } from './engine/execute.js'
import { memoryStore } from './stores/memory/index.js'

function setup() {
  const claims: KeyClaim[] = []
  const memory = memoryStore()
  const store: typeof memory = {
    ...memory,
    keyClaim(claim) {
      claims.push(claim)
      return memory.keyClaim(claim)
    },
  }
  return { store, claims }
}

function codeOf(options: unknown): unknown {
  try {
    createOnce(options as OnceOptions)
    return null
  } catch (error) {
    return isOncekeyError(error) ? error.code : error
  }
}

const work = { tenant: 'tenant', scope: 'orders.create', key: 'key-1', fingerprint: false, afterFailure: 'rerun' } as const

describe('createOnce', () => {
  test.each<[string, unknown]>([
    ['nothing', {}],
    ['null', { store: null }],
    ['something else', { store: { query: () => {} } }],
    ['a pool', { store: () => {} }],
  ])('refuses %s for a store, and says what to use', (_, options) => {
    expect(codeOf(options)).toBe('option_invalid')
    expect(() => createOnce(options as OnceOptions)).toThrow(/postgresStore.*memoryStore/)
  })

  test.each<[unknown]>([[-1], [0.5], [Number.NaN], [Number.POSITIVE_INFINITY], ['1mb'], [null], [1024 ** 3], [256 * 1024 ** 2 + 1]])(
    'refuses %o for maxAnswerBytes',
    (maxAnswerBytes) => {
      expect(codeOf({ ...setup(), maxAnswerBytes })).toBe('option_invalid')
    },
  )

  test.each([0, 1, 256 * 1024 ** 2])('accepts %d for maxAnswerBytes', (maxAnswerBytes) => {
    expect(codeOf({ ...setup(), maxAnswerBytes })).toBe(null)
  })

  test('keeps an answer of 8 MiB unless told otherwise, and not one that is larger', async () => {
    const { store } = setup()
    const once = createOnce({ store, onEvent: () => {} })
    for (const [key, bytes] of [
      ['fits', 8 * 1024 ** 2],
      ['too large', 8 * 1024 ** 2 + 1],
    ] as const) {
      const run = () => once.execute({ ...work, key }, () => reply(200, new Uint8Array(bytes)))
      await run()
      const again = await run()
      expect(again.kind === 'replayed' && again.answer.omittedBytes).toBe(key === 'fits' ? undefined : bytes)
    }
  })

  test.each(['lease', 'maxRun', 'retention', 'retentionFloor', 'storeTimeout'])('refuses a wrong %s at once', (name) => {
    for (const wrong of [0, -1, '-5s', '200000d', 'soon', Number.NaN, Number.POSITIVE_INFINITY]) {
      expect(codeOf({ ...setup(), [name]: wrong })).toBe('duration_invalid')
    }
  })

  test('refuses wrong exclusions and secrets at once', () => {
    expect(codeOf({ ...setup(), fingerprint: { exclude: { body: ['sent_at'] } } })).toBe('option_invalid')
    expect(codeOf({ ...setup(), fingerprint: { secrets: [{ id: 'a', secret: 'short' }] } })).toBe('option_invalid')
  })

  test('hands its defaults to each piece of work, which may change them', async () => {
    const { store, claims } = setup()
    const once = createOnce({ store, lease: '30s', retention: '7d', retentionFloor: '2h' })
    await once.execute(work, () => reply(200))
    await once.execute({ ...work, key: 'key-2', lease: '5s', retention: { for: '1h', from: 'completion' } }, () => reply(200))
    const hour = 3_600_000
    expect(claims).toMatchObject([
      { leaseMs: 30_000, retention: { ms: 168 * hour, from: 'creation', floorMs: 2 * hour } },
      { leaseMs: 5_000, retention: { ms: hour, from: 'completion', floorMs: hour } },
    ])
  })
})

describe('execute', () => {
  test.each<[string, string, Record<string, unknown>]>([
    ['no afterFailure', 'option_invalid', { afterFailure: undefined }],
    ['an unknown afterFailure', 'option_invalid', { afterFailure: 'retry' }],
    ['the name of a method as afterFailure', 'option_invalid', { afterFailure: 'toString' }],
    ['a request that is not bytes', 'option_invalid', { request: '{}' }],
    ['an empty key', 'key_invalid', { key: '' }],
    ['no tenant', 'tenant_invalid', { tenant: undefined }],
    ['no scope', 'scope_invalid', { scope: undefined }],
    ['a negative lease', 'duration_invalid', { lease: -1 }],
    ['an absurd maxRun', 'duration_invalid', { maxRun: '9999999d' }],
    ['an absurd retention', 'duration_invalid', { retention: 1e18 }],
    ['a retention from nowhere', 'option_invalid', { retention: { for: '1h', from: 'now' } }],
    ['a value that is not JSON', 'fingerprint_input_invalid', { fingerprint: { value: 1n } }],
    ['no fingerprint', 'option_invalid', { fingerprint: undefined }],
  ])('refuses %s as %s, without a claim and without running', async (_, code, wrong) => {
    const { store, claims } = setup()
    let ran = false
    const outcome = createOnce({ store }).execute({ ...work, ...wrong } as ExecuteOptions, () => {
      ran = true
      return reply(200)
    })
    await expect(outcome).rejects.toMatchObject({ name: 'OncekeyError', code })
    expect(claims).toEqual([])
    expect(ran).toBe(false)
  })

  test('says what to choose from when afterFailure is missing', async () => {
    const outcome = createOnce(setup()).execute({ ...work, afterFailure: undefined as never }, () => reply(200))
    await expect(outcome).rejects.toThrow(/'rerun'.*'store'.*'park'/)
  })
})
