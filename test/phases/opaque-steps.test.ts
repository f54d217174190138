// Work of once.execute that uses steps of its run: what an adapter's handler does.
import type pg from 'pg'
import { describe, expect, expectTypeOf, test } from 'vitest'
import { SimulatedCrash } from '../../src/core/crash-points.js'
import { type AfterFailure, type Answer, bodyOf, createOnce, OncekeyError, type OperationRun, reply } from '../../src/index.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { crashAt, crashEverywhere } from '../../src/testing/index.js'
import { startChild } from '../support/child.js'
import { useDatabase } from '../support/postgres/database.js'
import { ordersTable, traces } from './orders.js'
import { setup } from './setup.js'

const database = useDatabase()

type Work<Tx = pg.PoolClient> = (run: OperationRun<Tx>) => Promise<Answer> | Answer

/** A service, and a way to send one request with a key to whatever the work is at the moment. */
async function opaque(afterFailure: AfterFailure = 'rerun') {
  const bundle = await setup(database)
  const request = { tenant: bundle.tenant, scope: 'handler', key: 'k', fingerprint: false, afterFailure } as const
  return { ...bundle, ref: request, attempt: (work: Work) => bundle.once.execute(request, work) }
}

const fails = (message: string) => () => {
  throw new Error(message)
}
const happened = { whenUnknown: async () => ({ as: 'happened', result: 'ch_1' }) as const }

test('runs from its start after a throw, and skips what was committed', async () => {
  const { attempt, insert, things } = await opaque()
  const made: string[] = []
  const work: Work = async (run) => {
    made.push(`attempt ${run.attempt}`)
    const order = await run.phase('ordered', async (tx) => {
      made.push('phase')
      await insert(tx, 'opaque-resumes')
      return { id: 'order-1', at: new Date(0) }
    })
    expectTypeOf(order).toEqualTypeOf<{ id: string; at: string }>()
    const charge = await run.call('charged', () => ({ id: `ch_${made.push('call')}` }))
    if (run.attempt === 1) throw new Error('half-way')
    return reply(201, { ...order, charge: charge.id })
  }
  await expect(attempt(work)).rejects.toThrow('half-way')
  const outcome = await attempt(work)
  const body = { id: 'order-1', at: '1970-01-01T00:00:00.000Z', charge: 'ch_3' }
  expect(outcome.kind === 'executed' && bodyOf(outcome.answer)).toEqual(body)
  expect(made).toEqual(['attempt 1', 'phase', 'call', 'attempt 2'])
  expect(await things()).toContain('opaque-resumes')
  expect(await attempt(fails('must not run'))).toMatchObject({ kind: 'replayed', answer: { status: 201 } })
})

describe.each(['a reply', 'a finish'] as const)('a handler that ends with %s', (end) => {
  test('leaves one order and one charge wherever it crashes', async () => {
    await database.ensure(ordersTable)
    const provider = await startChild('phases/provider.ts', { honoursKeys: true }).message<string>()
    const once = createOnce({ store: postgresStore(fromPg(database.pool)), lease: '10m' })
    const { points } = await crashEverywhere({
      scenario() {
        const id = crypto.randomUUID()
        const request = { tenant: 't', scope: 'orders', key: id, fingerprint: { value: id }, afterFailure: 'rerun' } as const
        return {
          attempt: () =>
            once.execute(request, async (run) => {
              await run.phase('order_created', (tx) => tx.query('insert into orders (id) values ($1)', [id]).then(() => {}))
              const charge = await run.call('charge_created', async ({ key, signal }) => {
                const options = { method: 'POST', headers: { 'idempotency-key': key }, body: JSON.stringify({ order: id }), signal }
                return (await (await fetch(provider, options)).json()) as { id: string }
              })
              if (end === 'a reply') return reply(201, charge)
              return run.finish(async (tx) => {
                await tx.query('update orders set charge_id = $2 where id = $1', [id, charge.id])
                return reply(201, charge)
              })
            }),
          async check() {
            const { orders, charges, state } = await traces(database.pool, provider, id)
            if (orders !== 1 || charges !== 1 || state !== 'complete') throw new Error(JSON.stringify({ orders, charges, state }))
          },
        }
      },
      async expireLeases() {
        await database.pool.query(
          `update oncekey.keys set locked_until = clock_timestamp() - interval '1 second' where locked_until is not null`,
        )
      },
    })
    expect(points.slice(0, 9)).toEqual([
      'claim:before',
      'claim:after',
      'phase order_created:before',
      'phase order_created:begun',
      'phase order_created:worked',
      'phase order_created:written',
      'phase order_created:committed',
      'call charge_created:before',
      'call charge_created:after',
    ])
    expect(points.length).toBeGreaterThan(10)
  })
})

test.each(['rerun', 'store', 'park'] as const)(
  'keeps the result of a call when the work throws after it, under %s',
  async (afterFailure) => {
    const { attempt, steps, key, events } = await opaque(afterFailure)
    const work: Work = async (run) => {
      await run.call('charge', () => 'ch_1')
      throw new Error('after the charge')
    }
    await expect(attempt(work)).rejects.toThrow('after the charge')
    expect(await steps()).toEqual([{ name: 'charge', kind: 'call', result: '"ch_1"' }])
    expect((await key('k')).state).toBe({ rerun: 'pending', store: 'failed', park: 'parked' }[afterFailure])
    expect(events.at(-1)).toBe({ rerun: 'released', store: 'failed', park: 'parked' }[afterFailure])
  },
)

test('does nothing more for a key when the process dies in work that is not a step', async () => {
  const { attempt, once, ref, key, events } = await opaque('store')
  // The claims of this work and of the one inside of it: before, after, before.
  const disarm = crashAt(2, (point) => {
    throw new SimulatedCrash(point)
  })
  const work: Work = () => once.execute({ ...ref, key: 'inner' }, () => reply(200)).then(() => reply(200))
  await expect(attempt(work).finally(disarm)).rejects.toThrow('the process ends at claim:before')
  expect((await key('k')).state).toBe('processing')
  expect(events).toEqual(['executing'])
})

test('stores no reply when it could not be written down that a call is about to be made, whatever the work catches', async () => {
  const { pool, ref, key } = await opaque()
  const store = postgresStore(fromPg(pool))
  const stepAdvance = () => Promise.reject(new OncekeyError('store_failed', 'trouble'))
  const mute = createOnce({ store: { ...store, steps: { ...store.steps, stepAdvance } } })
  const made: string[] = []
  const work: Work = async (run) => {
    await run.call('charge', () => made.push('charge'), { whenUnknown: 'park' }).catch(() => {})
    return reply(200, 'all is well')
  }
  await expect(mute.execute(ref, work)).rejects.toMatchObject({ code: 'store_failed' })
  expect((await key('k')).state).toBe('processing')
  expect(made).toEqual([])
})

test('keeps the result of a call with the answer', async () => {
  const { attempt, steps } = await opaque()
  await attempt(async (run) => {
    await run.call('charge', () => 'ch_1')
    return reply(200)
  })
  expect(await steps()).toEqual([{ name: 'charge', kind: 'call', result: '"ch_1"' }])
})

test('does not let a catch around a fenced phase store a reply', async () => {
  const { attempt, newOnce, ref, insert, advance, things, key } = await opaque()
  const work: Work = async (run) => {
    try {
      await run.phase('late', async (tx) => {
        await insert(tx, 'opaque-fenced')
        await advance(60_000)
        await newOnce().execute(ref, () => reply(201, 'the thief'))
      })
    } catch {
      return reply(200, 'all is well')
    }
    return reply(200)
  }
  await expect(attempt(work)).rejects.toMatchObject({ code: 'lease_lost' })
  expect(await things()).not.toContain('opaque-fenced')
  expect(await key('k')).toMatchObject({ state: 'complete', fence: 2 })
})

test.each(['rerun', 'store'] as const)('does not let a catch around a parked call store a reply, under %s', async (afterFailure) => {
  const { attempt, key } = await opaque(afterFailure)
  let made = 0
  const work: Work = async (run) => {
    const charge = () => {
      made += 1
      throw new Error('reset')
    }
    await run.call('charge', charge, { whenUnknown: 'park' }).catch(() => {})
    return reply(200, 'all is well')
  }
  expect(await attempt(work)).toMatchObject({ kind: 'parked', answer: { status: 500 } })
  expect(await key('k')).toMatchObject({ state: 'parked', parked_step: 'charge' })
  expect(await attempt(work)).toMatchObject({ kind: 'parked' })
  expect(made).toBe(1)
})

test('refuses to end while a step is under way', async () => {
  const { attempt, insert, key, steps } = await opaque()
  const work: Work = (run) => {
    void run.phase('not awaited', (tx) => insert(tx, 'opaque-forgotten').then(() => {}))
    return reply(200)
  }
  await expect(attempt(work)).rejects.toMatchObject({ code: 'steps_overlap' })
  expect((await key('k')).state).toBe('pending')
  expect(await steps()).toMatchObject([{ name: 'not awaited' }])
})

test('refuses a second step beside the first, however early', async () => {
  const { attempt, insert, things } = await opaque()
  const codes: unknown[] = []
  await attempt(async (run) => {
    const both = ['one', 'two'].map((name) => run.phase(name, (tx) => insert(tx, `opaque-${name}`).then(() => {})))
    for (const result of await Promise.allSettled(both)) codes.push(result.status === 'rejected' ? result.reason.code : result.status)
    return reply(200)
  })
  expect(codes).toEqual(['fulfilled', 'steps_overlap'])
  expect(await things()).not.toContain('opaque-two')
})

test.each(['with other steps', 'without any'] as const)('makes no step after the end of a run %s', async (before) => {
  const { attempt, insert, things, key } = await opaque()
  let late: OperationRun<pg.PoolClient> | undefined
  await attempt(async (run) => {
    late = run
    if (before === 'with other steps') await run.phase('first', () => 1)
    return reply(200)
  })
  const made: string[] = []
  const steps = [
    late?.call('charge', () => made.push('charge')),
    late?.phase('order', (tx) => insert(tx, 'too late').then(() => {})),
    late?.finish(() => reply(500)),
    late?.stage(undefined as never, 'mail', {}),
  ]
  for (const step of steps) await expect(step).rejects.toMatchObject({ code: 'steps_overlap' })
  expect(made).toEqual([])
  expect(await things()).not.toContain('too late')
  expect((await key('k')).state).toBe('complete')
})

test.each<[string, () => Answer]>([
  ['returns', () => reply(500, 'something else')],
  ['throws', fails('too late')],
])('has the answer that it finished with, whatever it %s afterwards', async (_, after) => {
  for (const afterFailure of ['rerun', 'store', 'park'] as const) {
    const { attempt, insert, things, events } = await opaque(afterFailure)
    const work: Work = async (run) => {
      await run.finish(async (tx) => {
        await insert(tx, `finished ${run.incarnation}`)
        return reply(201, { id: run.incarnation })
      })
      return after()
    }
    const outcome = await attempt(work)
    const { incarnation } = outcome as { incarnation: string }
    expect(outcome).toMatchObject({ kind: 'executed', stored: true, answer: { status: 201 } })
    expect(await things()).toContain(`finished ${incarnation}`)
    expect(await attempt(work)).toMatchObject({ kind: 'replayed', answer: { status: 201 }, incarnation })
    expect(events).toEqual(['executing', 'finished', 'replayed'])
  }
})

describe('an error while nobody knows what became of a call', () => {
  const charges: Work = async (run) => reply(201, await run.call('charge', fails('reset'), happened))

  test('is not stored: the next attempt finds out', async () => {
    const { attempt, key } = await opaque('store')
    await expect(attempt(charges)).rejects.toThrow('reset')
    expect((await key('k')).state).toBe('pending')
    // Nor is one that comes before the call is looked at again.
    await expect(attempt(fails('something else'))).rejects.toThrow('something else')
    expect((await key('k')).state).toBe('pending')
    const outcome = await attempt(charges)
    expect(outcome.kind === 'executed' && bodyOf(outcome.answer)).toBe('ch_1')
  })

  test('parks the key over that call, for a person to say what happened', async () => {
    const { attempt, key, once, ref } = await opaque('park')
    await expect(attempt(charges)).rejects.toThrow('reset')
    expect(await key('k')).toMatchObject({ state: 'parked', parked_step: 'charge' })
    await once.resolve(ref, { as: 'happened', result: 'ch_2' })
    const outcome = await attempt(charges)
    expect(outcome.kind === 'executed' && bodyOf(outcome.answer)).toBe('ch_2')
  })

  test('is stored once it is known', async () => {
    const { attempt } = await opaque('store')
    const work: Work = async (run) => {
      await run.call('charge', () => 'ch_1', happened)
      throw new Error('after the charge')
    }
    await expect(attempt(work)).rejects.toThrow('after the charge')
    expect(await attempt(work)).toMatchObject({ kind: 'replayed', state: 'failed' })
  })
})

describe('a half-way key whose work has a step no more', () => {
  const before: Record<string, Work> = {
    'a phase': async (run) => reply(200, await run.phase('created', () => 1)),
    'a call whose result came along': async (run) => reply(200, await run.call('created', () => 1)),
    'a call that nobody knows of': async (run) => reply(200, await run.call('created', fails('half-way'), happened)),
  }
  const ran: string[] = []
  const after: Record<string, Work> = {
    'uses no step': () => reply(200),
    'uses another one': async (run) => reply(200, await run.phase('other', () => ran.push('other'))),
    'finishes at once': (run) => run.finish(() => reply(200, ran.push('finish'))),
  }
  const cases = Object.keys(before).flatMap((was) => Object.keys(after).map((is) => [was, is] as const))

  test.each(cases)('is parked: it was %s, and now it %s', async (was, is) => {
    const { attempt, key } = await opaque()
    await expect(
      attempt(async (run) => {
        await before[was]?.(run)
        throw new Error('half-way')
      }),
    ).rejects.toThrow('half-way')
    expect(await attempt(after[is] as Work)).toMatchObject({ kind: 'parked' })
    expect(await key('k')).toMatchObject({ state: 'parked', reason: expect.stringContaining("'created'") })
    expect(ran).toEqual([])
  })

  test('is not parked if the step was not made at all', async () => {
    const { attempt } = await opaque()
    const work: Work = async (run) => reply(200, await run.call('charge', fails('refused'), { ...happened, classify: () => 'retry' }))
    await expect(attempt(work)).rejects.toThrow('refused')
    expect(await attempt(() => reply(200))).toMatchObject({ kind: 'executed', stored: true })
  })
})

test('stores nothing when it could not be read what earlier attempts left, whatever the work makes of it', async () => {
  for (const afterFailure of ['rerun', 'store', 'park'] as const) {
    const { attempt, pool, ref, key } = await opaque()
    const work: Work = async (run) => {
      await run.phase('ordered', () => 1)
      if (run.attempt === 1) throw new Error('half-way')
      return reply(201)
    }
    await expect(attempt(work)).rejects.toThrow('half-way')
    const store = postgresStore(fromPg(pool))
    const stepsRead = () => Promise.reject(new OncekeyError('store_failed', 'trouble'))
    const blind = createOnce({ store: { ...store, steps: { ...store.steps, stepsRead } } })
    const request = { ...ref, afterFailure }
    const caught: Work = async (run) => {
      await run.phase('ordered', () => 2).catch(() => {})
      return reply(200, 'all is well')
    }
    await expect(blind.execute(request, caught)).rejects.toMatchObject({ code: 'store_failed' })
    if (afterFailure === 'park') {
      expect((await key('k')).state).toBe('parked')
      continue
    }
    expect((await key('k')).state).toBe('pending')
    await expect(blind.execute(request, fails('its own error'))).rejects.toThrow('its own error')
    expect((await key('k')).state).toBe('pending')
    expect(await attempt(work)).toMatchObject({ kind: 'executed', stored: true })
  }
})

describe('on a store without transactions', () => {
  const request = { tenant: 't', scope: 's', key: 'k', fingerprint: false, afterFailure: 'rerun' } as const
  const steps: Record<string, Work<never>> = {
    phase: async (run) => reply(200, await run.phase('a', () => 1)),
    call: async (run) => reply(200, await run.call('a', () => 1)),
    finish: (run) => run.finish(() => reply(200)),
    stage: async (run) => reply(200, await run.stage(undefined as never, 'a', 1)),
  }

  test.each(Object.entries(steps))('%s says that there are no steps, and the work may go on without', async (_, step) => {
    const once = createOnce({ store: memoryStore() })
    await expect(once.execute(request, step)).rejects.toMatchObject({ code: 'steps_unsupported' })
    const work: Work<never> = async (run) => {
      await expect((async () => step(run))()).rejects.toMatchObject({ code: 'steps_unsupported' })
      return reply(200, { attempt: run.attempt })
    }
    expect(await once.execute(request, work)).toMatchObject({ kind: 'executed', stored: true, answer: reply(200, { attempt: 2 }) })
  })
})
