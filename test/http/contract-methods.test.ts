import { describe, expect, test } from 'vitest'
import { idempotencyOf } from '../../src/http/idempotency.js'
import { field, header } from '../../src/http/key-source.js'
import type { IdempotencyOptions } from '../../src/http/options.js'
import { useDatabase } from '../support/postgres/database.js'
import { httpRequest, type Native, type RequestParts } from './request.js'
import { isReplay } from './seen.js'
import { setup } from './setup.js'

const database = useDatabase()

const key = 'k'

describe.each(['ietf', 'stripe'] as const)('methods of idempotency() in the %s profile', (profile) => {
  const untouched = ['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE', ...(profile === 'stripe' ? ['PATCH'] : [])]

  test.each(untouched)('G1 %s with a used key: untouched', async (method) => {
    const { handler, keys } = await setup(database, profile)
    const { send, runs } = handler({ scope: 'tenant' })
    await send({ key })
    const answers = [await send({ key, method }), await send({ key, method })]
    expect(answers.map(({ json }) => json)).toEqual([{ order: 2 }, { order: 3 }])
    expect(answers.map(isReplay)).toEqual([false, false])
    expect(runs()).toBe(3)
    expect(await keys()).toBe(1)
  })

  test.each(untouched)('G1 %s without a key where one is required, or with half a key: untouched', async (method) => {
    const { handler } = await setup(database, profile)
    const { send, runs } = handler({ required: true })
    expect((await send({ method })).status).toBe(201)
    expect((await send({ method, key: '' })).status).toBe(201)
    expect(runs()).toBe(2)
  })

  test.each(profile === 'ietf' ? ['POST', 'PATCH', 'post'] : ['POST', 'post'])('G1 %s is protected', async (method) => {
    const { handler } = await setup(database, profile)
    const { send, runs } = handler()
    await send({ key, method })
    expect(isReplay(await send({ key, method }))).toBe(true)
    expect(runs()).toBe(1)
  })

  test('G1 protects the methods that it is told to, and no others', async () => {
    const { handler } = await setup(database, profile)
    const { send, runs } = handler({ methods: ['put', 'DELETE'] })
    for (const method of ['PUT', 'DELETE']) {
      await send({ key: method, method })
      expect(isReplay(await send({ key: method, method }))).toBe(true)
    }
    await send({ key })
    expect(isReplay(await send({ key }))).toBe(false)
    expect(runs()).toBe(4)
  })
})

describe('concerns(), by which an adapter knows that it need not prepare anything', () => {
  async function concerns(parts: RequestParts, options: Partial<IdempotencyOptions<Native>> = {}) {
    const { once } = await setup(database, 'ietf')
    return idempotencyOf<Native, unknown>(once, { tenant: 'single', afterFailure: 'rerun', ...options }).concerns(httpRequest(parts))
  }

  test.each<[string, RequestParts, Partial<IdempotencyOptions<Native>>]>([
    ['GET with a key', { method: 'GET', key }, {}],
    ['POST without a key', {}, {}],
    ['POST with the key in another header', { key }, { key: header('X-Key') }],
    ['POST where only PUT is protected', { key }, { methods: ['PUT'] }],
  ])('is false for %s, which certainly passes', async (_, parts, options) => {
    expect(await concerns(parts, options)).toBe(false)
  })

  test.each<[string, RequestParts, Partial<IdempotencyOptions<Native>>]>([
    ['POST with a key', { key }, {}],
    ['post with half a key', { method: 'post', key: '' }, {}],
    ['a key that is in the body', {}, { key: field('reference') }],
    ['a key that a function finds', {}, { key: () => undefined }],
    ['POST without a key where one is required', {}, { required: true }],
  ])('is true for %s', async (_, parts, options) => {
    expect(await concerns(parts, options)).toBe(true)
  })
})
