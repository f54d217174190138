import { expect, test } from 'vitest'
import { type CallOptions, reply } from '../../src/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { setup } from './setup.js'

const database = useDatabase()

/** An operation with one call, which can be told what to do on each attempt. */
async function withCall(options: CallOptions<unknown>, attempts: (() => unknown)[]) {
  const bundle = await setup(database)
  let made = 0
  const operation = bundle.once.operation('calls', {}, async (run) => {
    const result = await run.call('charge', () => attempts[made++]?.(), options)
    return reply(200, { result })
  })
  const attempt = () => operation.run({ tenant: bundle.tenant, key: 'k', input: null })
  return { ...bundle, attempt, made: () => made }
}

const fails = (message: string) => () => {
  throw new Error(message)
}

test('resends a call that failed, with the same key, and parks it when the other side may have forgotten', async () => {
  const { attempt, made, advance, key } = await withCall({ resendWithin: '23h' }, [fails('reset'), fails('reset'), () => 'late'])
  await expect(attempt()).rejects.toThrow('reset')
  await advance(22 * 3_600_000)
  await expect(attempt()).rejects.toThrow('reset')
  await advance(2 * 3_600_000)
  expect((await attempt()).kind).toBe('parked')
  expect(made()).toBe(2)
  expect(await key('k')).toMatchObject({ state: 'parked', parked_step: 'charge' })
})

test('never makes a call twice that is parked on doubt, whatever its error says', async () => {
  const { attempt, made, steps } = await withCall({ whenUnknown: 'park' }, [fails('timeout \0 \ud800'), () => 'twice'])
  expect((await attempt()).kind).toBe('parked')
  expect((await attempt()).kind).toBe('parked')
  expect(made()).toBe(1)
  expect(await steps()).toEqual([{ name: 'charge', kind: 'intent', result: null }])
})

test('tells errors apart: a refusal is final and the same on every attempt, a harmless one may be tried again', async () => {
  const { once, newOnce, tenant } = await setup(database)
  for (const whenUnknown of ['resend', 'park'] as const) {
    let made = 0
    let crash = true
    const seen: string[] = []
    const define = (which: typeof once) =>
      which.operation(`classifies-${whenUnknown}`, {}, async (run) => {
        try {
          await run.call(
            'charge',
            () => {
              made += 1
              throw new Error(made === 1 ? 'connection refused' : 'card declined')
            },
            { whenUnknown, classify: (error) => (String(error).includes('refused') ? 'retry' : 'refused') },
          )
        } catch (error) {
          seen.push((error as Error).message)
          if ((error as { code?: string }).code !== 'call_refused') throw error
        }
        if (crash) {
          crash = false
          throw new Error('after the decline')
        }
        return reply(402, { error: 'card_declined' })
      })
    const attempt = (which: typeof once) => define(which).run({ tenant, key: 'k', input: null })
    await expect(attempt(newOnce())).rejects.toThrow('connection refused')
    await expect(attempt(newOnce())).rejects.toThrow('after the decline')
    expect(await attempt(newOnce())).toMatchObject({ kind: 'executed', answer: { status: 402 } })
    expect(made).toBe(2)
    expect(seen[1]).toContain('card declined')
    expect(seen[2]).toBe(seen[1])
  }
})

test('asks the other side before it makes a call again, and believes a "no" only after a while', async () => {
  const asked: string[] = []
  const answers = [{ as: 'did-not-happen' }, { as: 'did-not-happen' }] as const
  const { attempt, made, advance } = await withCall(
    {
      settle: '1m',
      whenUnknown: async ({ key }) => {
        asked.push(key)
        return answers[asked.length - 1] ?? { as: 'unknown' }
      },
    },
    [fails('reset'), () => 'made'],
  )
  await expect(attempt()).rejects.toThrow('reset')
  await expect(attempt()).rejects.toMatchObject({ code: 'call_timeout' })
  expect(made()).toBe(1)
  await advance(60_000)
  expect(await attempt()).toMatchObject({ kind: 'executed' })
  expect(made()).toBe(2)
  expect(new Set(asked).size).toBe(1)
})

test('does not store an error as final while nobody knows what became of a call', async () => {
  const { once, tenant } = await setup(database)
  const operation = once.operation('in-doubt', { storeErrors: true }, async (run) => {
    await run.call('charge', fails('reset'), { whenUnknown: async () => ({ as: 'happened', result: 'ch_1' }) })
    return reply(201)
  })
  await expect(operation.run({ tenant, key: 'k', input: null })).rejects.toThrow('reset')
  expect(await operation.run({ tenant, key: 'k', input: null })).toMatchObject({ kind: 'executed', answer: { status: 201 } })
})

test('takes a classification that throws for an unknown outcome', async () => {
  const { attempt } = await withCall(
    {
      whenUnknown: 'park',
      timeout: '10s',
      classify: () => {
        throw new TypeError('a mistake')
      },
    },
    [fails('reset')],
  )
  expect((await attempt()).kind).toBe('parked')
})

test('takes the answer of the look-up for the result of the call, and parks when the other side does not know', async () => {
  const happened = await withCall({ whenUnknown: async () => ({ as: 'happened', result: 'ch_1' }) }, [fails('reset')])
  await expect(happened.attempt()).rejects.toThrow('reset')
  expect(await happened.attempt()).toMatchObject({ kind: 'executed' })
  expect(await happened.steps()).toEqual([{ name: 'charge', kind: 'call', result: '"ch_1"' }])

  const unknown = await withCall({ whenUnknown: async () => ({ as: 'unknown' }) }, [fails('reset')])
  await expect(unknown.attempt()).rejects.toThrow('reset')
  expect((await unknown.attempt()).kind).toBe('parked')
})

test('aborts a call whose time is up', async () => {
  const { once, tenant } = await setup(database)
  let aborted: unknown
  const operation = once.operation('times-out', {}, async (run) => {
    await run.call(
      'slow',
      ({ signal }) =>
        new Promise((_, reject) => {
          signal.addEventListener('abort', () => {
            aborted = signal.reason
            reject(signal.reason)
          })
        }),
      { timeout: '50ms' },
    )
    return reply(200)
  })
  await expect(operation.run({ tenant, key: 'k', input: null })).rejects.toMatchObject({ code: 'call_timeout' })
  expect(aborted).toMatchObject({ code: 'call_timeout' })
})

test('carries the result of a call over a later throw, and over a second call', async () => {
  const { once, tenant, steps } = await setup(database)
  const made: string[] = []
  let fail = true
  const operation = once.operation('carries', {}, async (run) => {
    await run.call('first', () => made.push('first'))
    await run.call('second', async () => {
      // The first result is committed before the second call is made: a crash now must not forget it.
      expect(await steps()).toEqual([{ name: 'first', kind: 'call', result: '1' }])
      return made.push('second')
    })
    if (fail) {
      fail = false
      throw new Error('after both')
    }
    return reply(200)
  })
  await expect(operation.run({ tenant, key: 'k', input: null })).rejects.toThrow('after both')
  expect(await steps()).toHaveLength(2)
  expect((await operation.run({ tenant, key: 'k', input: null })).kind).toBe('executed')
  expect(made).toEqual(['first', 'second'])
})

test('commits the result of a call together with the next phase', async () => {
  const { once, tenant, insert, steps } = await setup(database)
  let made = 0
  let fail = true
  const operation = once.operation('rides-along', {}, async (run) => {
    await run.call('charge', () => ++made)
    await run.phase('marked', (tx) => insert(tx, 'rides-along').then(() => {}))
    expect(await steps()).toMatchObject([{ name: 'charge', result: '1' }, { name: 'marked' }])
    if (fail) {
      fail = false
      throw new Error('after the phase')
    }
    return reply(201)
  })
  await expect(operation.run({ tenant, key: 'k', input: null })).rejects.toThrow('after the phase')
  expect((await operation.run({ tenant, key: 'k', input: null })).kind).toBe('executed')
  expect(made).toBe(1)
})

test('waits for an open call before it releases, and carries its result', async () => {
  const { once, tenant, steps } = await setup(database)
  let made = 0
  const operation = once.operation('open-call', {}, async (run) => {
    let begun = () => {}
    const started = new Promise<void>((resolve) => {
      begun = resolve
    })
    const call = run.call('charge', async () => {
      begun()
      made += 1
      await new Promise((resolve) => setImmediate(resolve))
      return 'ch_1'
    })
    await started
    if (made === 1 && !(await steps()).length) throw new Error('gave up while the call was open')
    await call
    return reply(200)
  })
  await expect(operation.run({ tenant, key: 'k', input: null })).rejects.toThrow('gave up')
  expect(await steps()).toEqual([{ name: 'charge', kind: 'call', result: '"ch_1"' }])
})

test('makes no further step after the key was parked, whatever the body catches', async () => {
  const { once, tenant, insert, things } = await setup(database)
  const made: string[] = []
  const operation = once.operation('goes-on', {}, async (run) => {
    await run.call('charge', fails('reset'), { whenUnknown: 'park' }).catch(() => {})
    await run.call('mail', () => made.push('mail')).catch(() => {})
    await run.phase('order', (tx) => insert(tx, 'after the park').then(() => {})).catch(() => {})
    return run.finish(() => reply(201))
  })
  expect((await operation.run({ tenant, key: 'k', input: null })).kind).toBe('parked')
  expect(made).toEqual([])
  expect(await things()).not.toContain('after the park')
})

test('does not let a catch around a parked call store a reply', async () => {
  const { once, tenant, key } = await setup(database)
  const operation = once.operation('catches', {}, async (run) => {
    try {
      await run.call('charge', fails('reset'), { whenUnknown: 'park' })
    } catch {
      return reply(200, 'all is well')
    }
    return reply(201)
  })
  expect(await operation.run({ tenant, key: 'k', input: null })).toMatchObject({ kind: 'parked', answer: { status: 500 } })
  expect((await key('k')).state).toBe('parked')
  expect(await operation.run({ tenant, key: 'k', input: null })).toMatchObject({ kind: 'parked' })
})
