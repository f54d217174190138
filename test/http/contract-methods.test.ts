import { describe, expect, test } from 'vitest'
import { useDatabase } from '../support/postgres/database.js'
import { isReplay } from './seen.js'
import { setup } from './setup.js'

const database = useDatabase()

const key = '"k"'

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
    expect((await send({ method, key: '"half' })).status).toBe(201)
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
