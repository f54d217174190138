import type pg from 'pg'
import { describe, expect, test } from 'vitest'
import { type CallOptions, createOnce, type KeyEvent, type Once, type OnceEvent, type OperationRun, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { useDatabase } from '../support/postgres/database.js'

const database = useDatabase()

/** Two processes, one after the other, and everything that they reported. */
function setup() {
  const tenant = `tenant-${crypto.randomUUID()}`
  const events: OnceEvent[] = []
  const newOnce = (): Once<pg.PoolClient> =>
    createOnce({ store: postgresStore(fromPg(database.pool)), lease: '10m', onEvent: (event) => void events.push(event) })
  const once = newOnce()
  /** The same operation each time, as if the process were deployed anew. */
  const run = (body: (run: OperationRun<pg.PoolClient>) => Promise<ReturnType<typeof reply>>, key = 'k') =>
    newOnce().operation('orders', {}, body).run({ tenant, key, input: null })
  return { tenant, once, events, run, ref: { tenant, scope: 'orders', key: 'k' } }
}

const some = expect.any(Number)
const types = (events: readonly OnceEvent[]) => events.map(({ type }) => type)

describe('an operation reports', () => {
  test('each step, with the time it took, and its end', async () => {
    const { run, events, ref } = setup()
    await run(async (run) => {
      await run.phase('ordered', () => ({ id: 1 }))
      await run.call('charged', () => 'ch_1')
      return run.finish(() => reply(201))
    })
    expect(events).toEqual([
      { ...ref, type: 'executing', attempt: 1, takenOver: false, recoveryPoint: null, by: 'request' },
      { ...ref, type: 'phase-committed', name: 'ordered', durationMs: some },
      { ...ref, type: 'call-returned', name: 'charged', durationMs: some },
      { ...ref, type: 'finished', status: 201, durationMs: some, committed: true },
    ])
    const [, phase, call, finished] = events as (KeyEvent & { durationMs: number })[]
    expect(phase?.durationMs).toBeGreaterThan(0)
    expect(finished?.durationMs).toBeGreaterThanOrEqual((phase?.durationMs ?? 0) + (call?.durationMs ?? 0))
  })

  test('where an attempt is taken up, and nothing of steps that it does not make again', async () => {
    const { run, events, ref } = setup()
    const body = (fail: boolean) => async (run: OperationRun<pg.PoolClient>) => {
      await run.phase('ordered', () => 1)
      if (fail) throw new Error('half-way')
      return reply(201)
    }
    await expect(run(body(true))).rejects.toThrow('half-way')
    await run(body(false))
    expect(events.slice(2)).toEqual([
      { ...ref, type: 'released', error: new Error('half-way'), durationMs: some },
      { ...ref, type: 'executing', attempt: 2, takenOver: true, recoveryPoint: 'ordered', by: 'request' },
      { ...ref, type: 'finished', status: 201, durationMs: some, committed: true },
    ])
  })

  test('that a worker runs it', async () => {
    const { once, tenant, events } = setup()
    let fail = true
    const operation = once.operation('orders', {}, async () => {
      if (fail) throw new Error('half-way')
      return reply(201)
    })
    await expect(operation.run({ tenant, key: 'k', input: null })).rejects.toThrow('half-way')
    fail = false
    await operation.resume({ tenant, key: 'k' })
    expect(events.filter(({ type }) => type === 'executing')).toMatchObject([{ by: 'request' }, { by: 'worker', attempt: 2 }])
  })

  test.each([
    ['refused', 'call-refused', {}],
    ['retry', 'call-failed', { meaning: 'retry' }],
    ['unknown', 'call-failed', { meaning: 'unknown' }],
  ] as const)('a call that fails as %s', async (meaning, type, fields) => {
    const { run, events, ref } = setup()
    const error = new Error('the other side')
    const failing = run(async (run) => {
      await run.call('charged', () => Promise.reject(error), { classify: () => meaning })
      return reply(201)
    })
    await expect(failing).rejects.toThrow('the other side')
    expect(types(events)).toEqual(['executing', type, 'released'])
    expect(events[1]).toEqual({ ...ref, type, name: 'charged', durationMs: some, error, ...fields })
  })

  test.each([
    ['happened', ['executing', 'call-looked-up', 'finished']],
    ['did-not-happen', ['executing', 'call-looked-up', 'call-returned', 'finished']],
    ['unknown', ['executing', 'call-looked-up', 'parked']],
  ] as const)('what the other side says of a call: %s', async (as, expected) => {
    const { run, events, ref } = setup()
    const options: CallOptions<string> = { whenUnknown: async () => ({ as, result: 'ch_1' }), settle: 1 }
    const body = (call: () => Promise<string>) => async (run: OperationRun<pg.PoolClient>) => {
      await run.call('charged', call, options)
      return reply(201)
    }
    await expect(run(body(() => Promise.reject(new Error('reset'))))).rejects.toThrow('reset')
    const before = events.length
    // Old enough for "did not happen" to be believed.
    await database.pool.query(`update oncekey.steps set recorded_at = recorded_at - interval '1 hour' where tenant = $1`, [ref.tenant])
    await run(body(async () => 'ch_1'))
    expect(types(events.slice(before))).toEqual(expected)
    expect(events[before + 1]).toEqual({ ...ref, type: 'call-looked-up', name: 'charged', found: as })
  })

  test('that it parked its key, and what a person made of that', async () => {
    const { run, once, events, ref } = setup()
    const body = async (run: OperationRun<pg.PoolClient>) => {
      await run.call('charged', () => Promise.reject(new Error('reset')), { whenUnknown: 'park' })
      return reply(201)
    }
    expect((await run(body)).kind).toBe('parked')
    expect((await run(body)).kind).toBe('parked')
    await once.resolve(ref, { as: 'happened', result: 'ch_1', by: 'ana' })
    await expect(once.resolve(ref, { as: 'did-not-happen' })).rejects.toMatchObject({ code: 'resolve_conflict' })
    expect(types(events)).toEqual(['executing', 'call-failed', 'parked', 'met-parked', 'resolved'])
    expect(events[2]).toMatchObject({ durationMs: some, error: { code: 'key_parked' } })
    expect(events[4]).toEqual({ ...ref, type: 'resolved', as: 'happened', by: 'ana' })
  })

  test('that it lost its key, once, whoever noticed', async () => {
    const { run, events, tenant } = setup()
    const lost = run(async (run) => {
      await database.pool.query(`update oncekey.keys set fence = fence + 1, owner = gen_random_uuid() where tenant = $1`, [tenant])
      await run.phase('ordered', () => 1).catch(() => {})
      await run.phase('again', () => 1)
      return reply(201)
    })
    await expect(lost).rejects.toMatchObject({ code: 'lease_lost' })
    expect(types(events)).toEqual(['executing', 'lease-lost'])
  })
})

describe('local work reports', () => {
  test('its start and its end, and replays', async () => {
    const { once, tenant, events, ref } = setup()
    const local = once.local('orders', {}, () => reply(201))
    for (const _ of [1, 2]) await local.run({ tenant, key: 'k', input: null })
    expect(events).toEqual([
      { ...ref, type: 'executing', attempt: 1, takenOver: false, recoveryPoint: null, by: 'request' },
      { ...ref, type: 'finished', status: 201, durationMs: some, committed: true },
      { ...ref, type: 'replayed', state: 'complete' },
    ])
  })

  test('that it left nothing', async () => {
    const { once, tenant, events, ref } = setup()
    const error = new Error('no')
    const local = once.local('orders', {}, () => {
      throw error
    })
    await expect(local.run({ tenant, key: 'k', input: null })).rejects.toBe(error)
    expect(events.slice(1)).toEqual([{ ...ref, type: 'released', error, durationMs: some }])
  })

  test('one start, also if its transaction has to be repeated', async () => {
    const { once, tenant, events } = setup()
    let tries = 0
    const local = once.local('orders', {}, async (tx) => {
      tries += 1
      if (tries === 1) await tx.query(`do $$ begin raise exception 'again' using errcode = '40001'; end $$`)
      return reply(201)
    })
    expect((await local.run({ tenant, key: 'k', input: null })).kind).toBe('executed')
    expect([tries, ...types(events)]).toEqual([2, 'executing', 'finished'])
  })

  test('that nobody knows whether it is committed, if the store is away', async () => {
    const { tenant } = setup()
    const events: OnceEvent[] = []
    const pool = database.createPool({ max: 1, application_name: tenant })
    const once = createOnce({ store: postgresStore(fromPg(pool)), storeTimeout: '1s', onEvent: (event) => void events.push(event) })
    const local = once.local('orders', {}, async () => {
      void pool.end()
      await database.pool.query('select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1', [tenant])
      return reply(201)
    })
    await expect(local.run({ tenant, key: 'k', input: null })).rejects.toThrow()
    expect(types(events)).toEqual(['executing', 'answer-not-stored'])
  })
})

describe('work in a transaction of the user reports', () => {
  async function within(work: () => ReturnType<typeof reply>, times = 1) {
    const { once, ref, events } = setup()
    const tx = await database.pool.connect()
    try {
      await tx.query('begin')
      for (let time = 0; time < times; time += 1) await once.within(tx, ref, work).catch(() => {})
      await tx.query('rollback')
    } finally {
      tx.release()
    }
    return { events, ref }
  }

  test('its end as one that the user has to commit', async () => {
    const { events, ref } = await within(() => reply(201), 2)
    expect(events).toEqual([
      { ...ref, type: 'executing', attempt: 1, takenOver: false, recoveryPoint: null, by: 'request' },
      { ...ref, type: 'finished', status: 201, durationMs: some, committed: false },
      { ...ref, type: 'replayed', state: 'complete' },
    ])
  })

  test('that it threw', async () => {
    const error = new Error('no')
    const { events, ref } = await within(() => {
      throw error
    })
    expect(events.slice(1)).toEqual([{ ...ref, type: 'released', error, durationMs: some }])
  })
})
