import type pg from 'pg'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { createOnce, keyId, type OnceEvent, OncekeyError, type OnceOptions, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { crashEverywhere } from '../../src/testing/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { postgresHarness } from '../support/postgres/harness.js'
import { startProxy } from '../support/postgres/proxy.js'

const database = useDatabase()

async function setup(options: Partial<OnceOptions<pg.PoolClient>> = {}) {
  const { advance } = await postgresHarness(fromPg(database.pool))
  const events: OnceEvent[] = []
  const once = createOnce({
    store: postgresStore(fromPg(database.pool)),
    lease: '10m',
    onEvent: (event) => void events.push(event),
    ...options,
  })
  const tenant = `tenant-${crypto.randomUUID()}`
  const runs: unknown[] = []
  const order = once.operation('orders.create', { input: z.object({ amount: z.coerce.number() }) }, (run, input) => {
    runs.push({ input, attempt: run.attempt, fence: run.fence })
    return reply(201, { amount: input.amount })
  })
  const request = { tenant, key: 'k', input: { amount: '100' } }
  return { once, order, tenant, runs, events, advance, request, ref: { tenant, scope: 'orders.create', key: 'k' } }
}

describe('operation.enqueue', () => {
  test('keeps the request, runs nothing, and says so', async () => {
    const { once, order, request, ref, runs, events } = await setup()
    const outcome = await order.enqueue(request)
    const record = await once.internals.parts.store.keyRead(ref)
    expect(outcome).toEqual({ kind: 'enqueued', id: keyId(ref), incarnation: record?.incarnation })
    expect(record).toMatchObject({ state: 'pending', async: true, fence: 0, attempts: 0 })
    expect([runs, events]).toEqual([[], [{ ...ref, type: 'enqueued' }]])
  })

  test('resume carries it out as its first attempt, from the input as it came', async () => {
    const { order, request, runs } = await setup()
    const accepted = await order.enqueue(request)
    const executed = await order.resume(request)
    expect(executed).toMatchObject({ kind: 'executed', incarnation: accepted.kind === 'enqueued' && accepted.incarnation })
    expect(runs).toEqual([{ input: { amount: 100 }, attempt: 1, fence: 1 }])
    expect(await order.resume(request)).toMatchObject({ kind: 'replayed' })
    expect(await order.enqueue(request)).toMatchObject({ kind: 'replayed', state: 'complete' })
    expect(await order.run(request)).toMatchObject({ kind: 'replayed' })
    expect(runs).toHaveLength(1)
  })

  test('again while it waits: in progress, with the id; so is a run', async () => {
    const { order, request, ref, runs, events } = await setup()
    await order.enqueue(request)
    expect(await order.enqueue(request)).toEqual({ kind: 'in-progress', id: keyId(ref), retryAfterMs: 0 })
    expect(await order.run(request)).toEqual({ kind: 'in-progress', retryAfterMs: 0 })
    expect([runs, events.map(({ type }) => type)]).toEqual([[], ['enqueued', 'met-in-progress', 'met-in-progress']])
  })

  test('another input: a mismatch; input that does not fit: invalid, and nothing is kept', async () => {
    const { once, order, request, ref } = await setup()
    expect(await order.enqueue({ ...request, input: { amount: 'much' } })).toMatchObject({
      kind: 'invalid',
      issues: [{ path: ['amount'] }],
    })
    expect(await once.internals.parts.store.keyRead(ref)).toBeUndefined()
    await order.enqueue(request)
    expect(await order.enqueue({ ...request, input: { amount: '7' } })).toEqual({ kind: 'mismatch', part: 'body' })
    // A known key is told of, even if its input would not fit.
    expect(await order.enqueue({ ...request, issues: [{ message: 'unreadable' }] })).toEqual({
      kind: 'in-progress',
      id: keyId(ref),
      retryAfterMs: 0,
    })
  })

  test('without a key: an error, unless the operation makes one', async () => {
    const { once, order, tenant } = await setup()
    await expect(order.enqueue({ tenant, input: { amount: '1' } })).rejects.toMatchObject({ code: 'key_invalid' })
    const charge = once.operation('charge', { input: z.object({ order: z.string() }), key: ({ order }) => order }, () => reply(201))
    const accepted = await charge.enqueue({ tenant, input: { order: '4127' } })
    expect(accepted).toMatchObject({ kind: 'enqueued', id: keyId({ tenant, scope: 'charge', key: '4127' }) })
    expect(await charge.enqueue({ tenant, input: { order: '4127' } })).toMatchObject({ kind: 'in-progress' })
    expect(await charge.enqueue({ tenant, input: {} as { order: string } })).toMatchObject({ kind: 'invalid' })
  })

  test('tells every listener of a fresh one, and of no other; one that throws changes nothing', async () => {
    const { once, order, request, ref } = await setup()
    const told: unknown[] = []
    once.internals.onEnqueued.add(() => {
      throw new Error('a worker that is broken')
    })
    once.internals.onEnqueued.add((given) => void told.push(given))
    const warned = new Promise<Error>((resolve) => {
      const listen = (warning: Error & { code?: string }) => {
        if (warning.code !== 'ONCEKEY_WORKER') return
        process.off('warning', listen)
        resolve(warning)
      }
      process.on('warning', listen)
    })
    expect((await order.enqueue(request)).kind).toBe('enqueued')
    expect(told).toEqual([ref])
    expect((await warned).message).toContain('a worker that is broken')
    await order.enqueue(request)
    await order.enqueue({ ...request, input: { amount: '7' } })
    expect(told).toEqual([ref])
  })

  test('a listener may start at once', async () => {
    const { once, order, request, runs } = await setup()
    const finished = new Promise<string>((resolve) => {
      once.internals.onEnqueued.add((ref) => void order.resume(ref).then(({ kind }) => resolve(kind)))
    })
    await order.enqueue(request)
    expect([await finished, runs.length]).toEqual(['executed', 1])
  })

  test('an acknowledgement that was lost: the repeat knows itself', async () => {
    const proxy = await startProxy(database.url)
    const pool = database.createPool({ connectionString: proxy.url })
    const { order, request, ref, events } = await setup({ store: postgresStore(fromPg(pool, { prepare: false })) })
    // The schema is checked, and a connection is open.
    await order.enqueue({ ...request, key: 'other' })
    const lost = proxy.swallowReplyTo(/existing as/)
    expect(await order.enqueue(request)).toMatchObject({ kind: 'enqueued', id: keyId(ref) })
    await lost
    expect(events.filter((event) => 'key' in event && event.key === 'k').map(({ type }) => type)).toEqual(['enqueued'])
    const { rows } = await database.pool.query('select fence from oncekey.keys where tenant = $1 and key = $2', [ref.tenant, 'k'])
    expect(rows).toEqual([{ fence: 0 }])
  })

  test('an acknowledgement that was lost for good: the duplicate that was told of it finds it carried out', async () => {
    const { order, request, ref, runs } = await setup()
    const real = postgresStore(fromPg(database.pool))
    const keyEnqueue: typeof real.keyEnqueue = async (...args) => {
      await real.keyEnqueue(...args)
      throw new OncekeyError('store_timeout', 'lost')
    }
    const failing = createOnce({ store: { ...real, keyEnqueue } })
    const sameOrder = failing.operation('orders.create', {}, () => reply(201))
    await expect(sameOrder.enqueue(request)).rejects.toMatchObject({ code: 'store_timeout' })
    expect(await order.enqueue(request)).toEqual({ kind: 'in-progress', id: keyId(ref), retryAfterMs: 0 })
    // Whatever a process undoes, it undoes at the latest when it stops.
    await failing.stop()
    expect(await order.resume(request)).toMatchObject({ kind: 'executed' })
    expect(runs).toHaveLength(1)
  })

  test('is in the trail, and so is the worker that took it', async () => {
    const { once, order, request, ref } = await setup({ store: postgresStore(fromPg(database.pool), { audit: true }) })
    await order.enqueue(request)
    await order.resume(request)
    const trail = await once.history(ref)
    expect(trail.map(({ what, fence }) => [what, fence])).toEqual([
      ['enqueued', 0],
      ['taken-over', 1],
      ['complete', 1],
    ])
  })

  test('local work cannot be enqueued', async () => {
    const { once } = await setup()
    expect('enqueue' in once.local('local', {}, () => reply(201))).toBe(false)
  })
})

test('one effect wherever it crashes: the one who accepts it, or the worker', async () => {
  const { once, tenant } = await setup()
  await database.ensure('create table if not exists enqueued_effects (key text not null)')
  const order = once.operation('orders.later', {}, (run) =>
    run.finish(async (tx) => {
      await tx.query('insert into enqueued_effects values ($1)', [run.idempotencyKey])
      return reply(201)
    }),
  )
  const { points } = await crashEverywhere({
    scenario() {
      const key = crypto.randomUUID()
      return {
        async attempt() {
          const { kind } = await order.enqueue({ tenant, key, input: null })
          return kind === 'enqueued' || kind === 'in-progress' ? order.resume({ tenant, key }) : { kind }
        },
        async check() {
          const { rows } = await database.pool.query('select count(*)::integer as count from enqueued_effects where key = $1', [key])
          expect(rows).toEqual([{ count: 1 }])
        },
      }
    },
    async expireLeases() {
      await database.pool.query(
        `update oncekey.keys set locked_until = clock_timestamp() - interval '1 second' where locked_until is not null`,
      )
    },
  })
  expect(points.slice(0, 4)).toEqual(['enqueue:before', 'enqueue:after', 'claim:before', 'claim:after'])
})
