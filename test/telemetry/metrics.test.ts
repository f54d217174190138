import { randomUUID } from 'node:crypto'
import { metrics } from '@opentelemetry/api'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { createOnce, type OnceEvent, reply } from '../../src/index.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { bucketSeconds, type InstrumentSpec, instruments } from '../../src/telemetry/instruments.js'
import { telemetry } from '../../src/telemetry/opentelemetry.js'
import { useDatabase } from '../support/postgres/database.js'
import { startMetrics } from './exporters.js'

const database = useDatabase()
const ref = { tenant: 'a tenant', scope: 'orders', key: 'a key' }
const request = { ...ref, fingerprint: { value: 1 }, afterFailure: 'rerun' } as const

afterEach(() => {
  metrics.disable()
  vi.restoreAllMocks()
})

const job = { tenant: 't', id: 'id', job: 'receipt', group: null, attempt: 1, sink: 'mail' } as const

function setup(options?: Parameters<typeof telemetry>[0]) {
  const { collect, values, durations } = startMetrics()
  return { collect, values, durations, told: telemetry(options) }
}

/** Real runs that come to every verdict, and to most ends. */
async function everyVerdict(once: ReturnType<typeof createOnce>) {
  const fails = () => {
    throw new Error('half-way')
  }
  await expect(once.execute(request, fails)).rejects.toThrow('half-way')
  await once.execute(request, async () => {
    await once.execute(request, () => reply(500))
    return reply(201)
  })
  for (const _ of [1, 2, 3]) await once.execute(request, () => reply(500))
  await once.execute({ ...request, fingerprint: { value: 2 } }, () => reply(500))
  await expect(once.execute({ ...request, key: 'parked', afterFailure: 'park' }, fails)).rejects.toThrow('half-way')
  await once.execute({ ...request, key: 'parked' }, () => reply(500))
  await expect(once.execute({ ...request, key: 'failed', afterFailure: 'store' }, fails)).rejects.toThrow('half-way')
}

describe('metrics', () => {
  test('count claims by verdict and scope', async () => {
    const { values, told } = setup()
    await everyVerdict(createOnce({ store: memoryStore(), telemetry: told }))
    const byVerdict = Object.fromEntries(
      (await values('oncekey.claims')).map(({ attributes, value }) => [
        (attributes as Record<string, string>)['oncekey.verdict'],
        { scope: (attributes as Record<string, string>)['oncekey.scope'], value },
      ]),
    )
    expect(byVerdict).toEqual({
      execute: { scope: 'orders', value: 4 },
      'in-progress': { scope: 'orders', value: 1 },
      replay: { scope: 'orders', value: 3 },
      mismatch: { scope: 'orders', value: 1 },
      parked: { scope: 'orders', value: 1 },
    })
  })

  test('count what became of runs, and time them in seconds', async () => {
    const { values, durations, told } = setup()
    await everyVerdict(createOnce({ store: memoryStore(), telemetry: told }))
    const scope = { 'oncekey.scope': 'orders' }
    expect(await values('oncekey.takeovers')).toEqual([{ attributes: { ...scope, 'oncekey.by': 'request' }, value: 1 }])
    expect(await values('oncekey.released')).toEqual([{ attributes: scope, value: 1 }])
    expect(await values('oncekey.parked')).toEqual([{ attributes: scope, value: 1 }])
    const runs = await durations('oncekey.run.duration')
    expect(runs.map(({ attributes, count }) => [(attributes as Record<string, string>)['oncekey.outcome'], count])).toEqual([
      ['released', 1],
      ['finished', 1],
      ['parked', 1],
      ['failed', 1],
    ])
    for (const { sum } of runs) expect(sum).toBeLessThan(5)
  })

  test('time each phase and call by its name', async () => {
    const { durations, told } = setup()
    const once = createOnce({ store: postgresStore(fromPg(database.pool)), telemetry: told })
    const operation = once.operation(`orders-${randomUUID()}`, {}, async (run) => {
      await run.phase('ordered', async (tx) => void (await tx.query('select pg_sleep(0.02)')))
      await run.call('charged', () => 'ch_1')
      await run.call('mailed', () => Promise.reject(new Error('no such address')), { classify: () => 'refused' }).catch(() => {})
      await run.call('told', () => Promise.reject(new Error('reset'))).catch(() => {})
      return reply(201)
    })
    await operation.run({ tenant: 't', key: 'k', input: null })
    const steps = await durations('oncekey.phase.duration')
    const step = (name: string, kind: string, outcome: string) => ({
      attributes: { 'oncekey.scope': operation.name, 'oncekey.step': name, 'oncekey.kind': kind, 'oncekey.outcome': outcome },
      count: 1,
      sum: expect.any(Number),
    })
    expect(steps).toEqual([
      step('ordered', 'phase', 'done'),
      step('charged', 'call', 'done'),
      step('mailed', 'call', 'refused'),
      step('told', 'call', 'failed'),
    ])
    expect(steps[0]?.sum).toBeGreaterThanOrEqual(0.02)
    expect(steps[0]?.sum).toBeLessThan(5)
  })

  const events: [OnceEvent, string, object, number][] = [
    [{ ...ref, type: 'lease-lost' }, 'leases_lost', { scope: 'orders' }, 1],
    [{ ...ref, type: 'answer-not-stored', error: null }, 'answers_not_stored', { scope: 'orders' }, 1],
    [{ ...ref, type: 'not-claimed', error: null }, 'not_claimed', { scope: 'orders' }, 1],
    [{ ...ref, type: 'failed-open', error: null }, 'failed_open', { scope: 'orders' }, 1],
    [{ ...ref, type: 'resolved', as: 'failed', by: 'ana' }, 'resolved', { scope: 'orders', as: 'failed' }, 1],
    [{ ...ref, type: 'swept', fence: 1, to: 'pending', reason: 'gone' }, 'swept', { scope: 'orders', to: 'pending' }, 1],
    [{ ...ref, type: 'swept', fence: 1, to: 'parked', reason: 'gone' }, 'parked', { scope: 'orders' }, 1],
    [{ ...ref, type: 'timed-out' }, 'timed_out', { scope: 'orders' }, 1],
    [{ type: 'worker-ran', worker: 'reaper', counts: { reaped: 7, seen: 0 }, durationMs: 5 }, 'reaped', {}, 7],
    [
      { type: 'worker-ran', worker: 'relay', counts: { sent: 2, late: 0 }, durationMs: 5 },
      'worker.items',
      { worker: 'relay', item: 'sent' },
      2,
    ],
    [{ type: 'worker-failed', worker: 'relay', error: null }, 'worker.failures', { worker: 'relay' }, 1],
    [{ ...job, type: 'job-unsettled', error: null }, 'jobs_unsettled', { job: 'receipt', sink: 'mail' }, 1],
  ]
  test.each(events)('count %o as %s', async (event, name, attributes, value) => {
    const { values, told } = setup()
    told.onEvent(event)
    const prefixed = Object.fromEntries(Object.entries(attributes).map(([attribute, text]) => [`oncekey.${attribute}`, text]))
    expect(await values(`oncekey.${name}`)).toEqual([{ attributes: prefixed, value }])
  })

  test('time deliveries by how they ended, and how long jobs waited for them', async () => {
    const { durations, told } = setup()
    told.onEvent({ ...job, type: 'job-delivered', durationMs: 500, waitedMs: 2_000 })
    told.onEvent({ ...job, type: 'job-failed', error: null, durationMs: 250, retryInMs: 1 })
    told.onEvent({ ...job, type: 'job-dead', error: null, durationMs: 125 })
    const attributes = { 'oncekey.job': 'receipt', 'oncekey.sink': 'mail' }
    expect(await durations('oncekey.job.duration')).toEqual([
      { attributes: { ...attributes, 'oncekey.outcome': 'delivered' }, count: 1, sum: 0.5 },
      { attributes: { ...attributes, 'oncekey.outcome': 'failed' }, count: 1, sum: 0.25 },
      { attributes: { ...attributes, 'oncekey.outcome': 'dead' }, count: 1, sum: 0.125 },
    ])
    expect(await durations('oncekey.job.wait')).toEqual([{ attributes, count: 1, sum: 2 }])
  })

  test('time a turn of background work in seconds', async () => {
    const { durations, told } = setup()
    told.onEvent({ type: 'worker-ran', worker: 'reaper', counts: {}, durationMs: 1_500 })
    expect(await durations('oncekey.worker.duration')).toEqual([{ attributes: { 'oncekey.worker': 'reaper' }, count: 1, sum: 1.5 }])
  })

  test('have the units, descriptions and attributes that the table says, and never a tenant or key', async () => {
    const { collect, told } = setup({ outboxLagMs: async () => 0 })
    await everyVerdict(createOnce({ store: memoryStore(), telemetry: told }))
    for (const [event] of events) told.onEvent(event)
    told.onEvent({ ...ref, type: 'phase-committed', name: 'ordered', durationMs: 1 })
    told.onEvent({ ...job, type: 'job-delivered', durationMs: 1, waitedMs: 1 })
    const measured = await collect()
    const specs: InstrumentSpec[] = Object.values(instruments)
    expect([...measured.keys()].sort()).toEqual(specs.map(({ name }) => name).sort())
    for (const { name, unit, description, attributes, kind } of specs) {
      const { descriptor, dataPoints } = measured.get(name) as NonNullable<ReturnType<typeof measured.get>>
      expect(descriptor).toMatchObject({ unit, description })
      for (const point of dataPoints) expect([name, Object.keys(point.attributes).sort()]).toEqual([name, [...attributes].sort()])
      if (kind === 'histogram') expect(dataPoints[0]?.value).toHaveProperty('buckets.boundaries', bucketSeconds)
    }
    const everything = JSON.stringify([...measured.values()].map(({ dataPoints }) => dataPoints.map(({ attributes }) => attributes)))
    for (const secret of [ref.tenant, ref.key]) expect(everything).not.toContain(secret)
  })

  test.each([
    ['orders.create', 'orders.create'],
    ['*', '*'],
    ['POST orders', 'POST orders'],
    ['POST /orders/123', 'POST'],
    [`PUT sha256:${'0'.repeat(64)}`, 'PUT'],
  ])('call the scope %s %s, because paths have no end', async (scope, name) => {
    const { values, told } = setup()
    told.onEvent({ ...ref, scope, type: 'timed-out' })
    expect(await values('oncekey.timed_out')).toMatchObject([{ attributes: { 'oncekey.scope': name } }])
  })

  test('call scopes what the user says', async () => {
    const { values, told } = setup({ scopeName: (scope) => scope.replace(/\d+/, ':id') })
    told.onEvent({ ...ref, scope: 'POST /orders/123', type: 'timed-out' })
    expect(await values('oncekey.timed_out')).toMatchObject([{ attributes: { 'oncekey.scope': 'POST /orders/:id' } }])
  })

  test('are there if the SDK is started after telemetry(), and go to a new one', async () => {
    metrics.disable()
    const told = telemetry()
    told.onEvent({ ...ref, type: 'timed-out' })
    for (const _ of ['the first', 'the second']) {
      const { values } = startMetrics()
      told.onEvent({ ...ref, type: 'timed-out' })
      expect(await values('oncekey.timed_out')).toMatchObject([{ value: 1 }])
    }
  })

  test('add up over the instances of a process', async () => {
    const { values } = startMetrics()
    for (const _ of [1, 2]) telemetry().onEvent({ ...ref, type: 'timed-out' })
    expect(await values('oncekey.timed_out')).toMatchObject([{ value: 2 }])
  })

  test('do not stop a run if scopeName throws', async () => {
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const { told } = setup({
      scopeName: () => {
        throw new Error('a mistake')
      },
    })
    const once = createOnce({ store: memoryStore(), telemetry: told })
    expect(await once.execute(request, () => reply(201))).toMatchObject({ kind: 'executed', stored: true })
    expect(warn).toHaveBeenCalledWith(expect.stringContaining('a mistake'), { code: 'ONCEKEY_LISTENER' })
  })

  test.each([{ keys: 'yes' }, { scopeName: 'orders' }, { outboxLagMs: 5 }])('refuse %o at start', (options) => {
    expect(() => telemetry(options as never)).toThrowError(expect.objectContaining({ code: 'option_invalid' }))
  })
})

describe('the lag of the outbox', () => {
  test('is the age of the oldest job, in seconds, and costs a query only when it is collected', async () => {
    const store = postgresStore(fromPg(database.pool))
    const asked = vi.fn(() => store.steps.jobsLagMs())
    const { values, told } = setup({ outboxLagMs: asked })
    const once = createOnce({ store, telemetry: told })
    expect(await values('oncekey.outbox.lag')).toEqual([{ attributes: {}, value: 0 }])

    const operation = once.operation(`staging-${randomUUID()}`, {}, (run) =>
      run.finish(async (tx) => {
        await run.stage(tx, 'receipt', {})
        return reply(201)
      }),
    )
    for (const key of ['a', 'b']) await operation.run({ tenant: randomUUID(), key, input: null })
    expect(asked).toHaveBeenCalledTimes(1)
    await database.pool.query(
      `update oncekey.jobs set staged_at = staged_at - interval '90 s', due_at = due_at - interval '90 s' where id = (select id from oncekey.jobs limit 1)`,
    )
    const [lag] = await values('oncekey.outbox.lag')
    expect(asked).toHaveBeenCalledTimes(2)
    expect(lag?.value).toBeGreaterThanOrEqual(90)
    expect(lag?.value).toBeLessThan(120)
  })

  test('is asked of a sealed store too', async () => {
    const { parts } = createOnce({ store: postgresStore(fromPg(database.pool)) }).internals
    expect(await (parts.store as ReturnType<typeof postgresStore>).steps.jobsLagMs()).toBeGreaterThan(0)
  })

  test('is not there if nobody gives it', async () => {
    const { collect, told } = setup()
    told.onEvent({ ...ref, type: 'timed-out' })
    expect((await collect()).has('oncekey.outbox.lag')).toBe(false)
  })
})
