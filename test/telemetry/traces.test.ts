import { AsyncResource } from 'node:async_hooks'
import { randomUUID } from 'node:crypto'
import { SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import type { ReadableSpan } from '@opentelemetry/sdk-trace-base'
import type pg from 'pg'
import { beforeEach, describe, expect, test } from 'vitest'
import { createOnce, type OnceOptions, reply } from '../../src/index.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { telemetry } from '../../src/telemetry/opentelemetry.js'
import { manualClock } from '../../src/testing/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { startTraces } from './exporters.js'

const database = useDatabase()
// Before the SDK is started, as it may be in a service.
const early = telemetry()
const { spans, reset } = startTraces()
beforeEach(reset)

const app = trace.getTracer('the app')
const nowhere = { tenant: 'a tenant', scope: 'orders', key: 'a key', fingerprint: false, afterFailure: 'rerun' } as const

/** A span of the application around `work`: the request that it is part of. */
const inRequest = <T>(work: () => Promise<T>): Promise<T> =>
  app.startActiveSpan('request', async (span) => {
    try {
      return await work()
    } finally {
      span.end()
    }
  })

/** What an instrumented driver or fetch does in the middle of something. */
const instrumented = (name: string) => app.startSpan(name).end()

const parentOf = (span: ReadableSpan) => spans().find((other) => other.spanContext().spanId === span.parentSpanContext?.spanId)?.name
/** The tree, as lines of `child < parent`. */
const tree = () => spans().map((span) => `${span.name} < ${parentOf(span)}`)
const named = (name: string) => spans().find((span) => span.name === name) as ReadableSpan

function setup(options: Partial<OnceOptions<pg.PoolClient>> = {}) {
  const once = createOnce({ store: postgresStore(fromPg(database.pool)), telemetry: early, ...options })
  return { once, tenant: randomUUID(), name: `orders-${randomUUID()}` }
}

describe('spans', () => {
  test('are one for the run and one for each step, open while the user works', async () => {
    const { once, tenant, name } = setup()
    const operation = once.operation(name, {}, async (run) => {
      instrumented('own')
      await run.phase('ordered', async (tx) => {
        instrumented('insert')
        await tx.query('select 1')
      })
      await run.call('charged', async () => {
        await new Promise((resolve) => setImmediate(resolve))
        instrumented('fetch')
      })
      return run.finish(() => {
        instrumented('update')
        return reply(201)
      })
    })
    await inRequest(() => operation.run({ tenant, key: 'k', input: null }))
    expect(tree()).toEqual([
      'own < oncekey.run',
      'insert < oncekey.phase ordered',
      'oncekey.phase ordered < oncekey.run',
      'fetch < oncekey.call charged',
      'oncekey.call charged < oncekey.run',
      'update < oncekey.finish',
      'oncekey.finish < oncekey.run',
      'oncekey.run < request',
      'request < undefined',
    ])
    expect(named('oncekey.run')).toMatchObject({ kind: SpanKind.INTERNAL, status: { code: SpanStatusCode.UNSET } })
    expect(named('oncekey.run').attributes).toEqual({
      'oncekey.scope': name,
      'oncekey.attempt': 1,
      'oncekey.taken_over': false,
      'oncekey.by': 'request',
    })
    expect(named('oncekey.phase ordered').attributes).toEqual({ 'oncekey.step': 'ordered' })
    expect(named('request').attributes).toEqual({ 'oncekey.verdict': 'execute' })
  })

  test('have no step that an earlier attempt made, and say that it was taken over', async () => {
    const { once, tenant, name } = setup()
    let fail = true
    const operation = once.operation(name, {}, async (run) => {
      await run.phase('ordered', () => 1)
      if (fail) throw new Error('half-way')
      return reply(201)
    })
    await expect(operation.run({ tenant, key: 'k', input: null })).rejects.toThrow('half-way')
    fail = false
    reset()
    await operation.resume({ tenant, key: 'k' })
    expect(spans().map(({ name }) => name)).toEqual(['oncekey.run'])
    expect(named('oncekey.run').attributes).toMatchObject({ 'oncekey.attempt': 2, 'oncekey.taken_over': true, 'oncekey.by': 'worker' })
  })

  test('record errors', async () => {
    const { once, tenant, name } = setup()
    const operation = once.operation(name, {}, async (run) => {
      await run.call('charged', () => Promise.reject(new TypeError('connection reset')))
      return reply(201)
    })
    await expect(operation.run({ tenant, key: 'k', input: null })).rejects.toThrow('connection reset')
    for (const name of ['oncekey.call charged', 'oncekey.run']) {
      const { status, events } = named(name)
      expect(status).toEqual({ code: SpanStatusCode.ERROR, message: 'connection reset' })
      expect(events).toMatchObject([
        { name: 'exception', attributes: { 'exception.type': 'TypeError', 'exception.message': 'connection reset' } },
      ])
    }
  })

  test('record what is thrown and is no Error', async () => {
    const once = createOnce({ store: memoryStore(), telemetry: early })
    const thrown = once.execute(nowhere, () => {
      throw 'a text'
    })
    await expect(thrown).rejects.toBe('a text')
    expect(named('oncekey.run')).toMatchObject({
      status: { message: 'a text' },
      events: [{ attributes: { 'exception.message': 'a text' } }],
    })
  })

  test('are none for a replay, which marks the span of its request', async () => {
    const once = createOnce({ store: memoryStore(), telemetry: early })
    const verdicts = []
    for (const value of [1, 1, 2]) {
      reset()
      await inRequest(() => once.execute({ ...nowhere, fingerprint: { value } }, () => reply(201)))
      verdicts.push([spans().length, named('request').attributes['oncekey.verdict']])
    }
    expect(verdicts).toEqual([
      [2, 'execute'],
      [1, 'replay'],
      [1, 'mismatch'],
    ])
  })

  test('have tenant, scope and key only if they are asked for', async () => {
    const scope = 'POST /customers/ana'
    await createOnce({ store: memoryStore(), telemetry: telemetry() }).execute({ ...nowhere, scope }, () => reply(201))
    expect(named('oncekey.run').attributes).toMatchObject({ 'oncekey.scope': 'POST' })
    for (const secret of ['a tenant', 'a key', 'ana']) expect(JSON.stringify(named('oncekey.run').attributes)).not.toContain(secret)
    reset()
    await createOnce({ store: memoryStore(), telemetry: telemetry({ keys: true }) }).execute({ ...nowhere, scope }, () => reply(201))
    expect(named('oncekey.run').attributes).toMatchObject({ 'oncekey.tenant': 'a tenant', 'oncekey.scope': scope, 'oncekey.key': 'a key' })
  })

  test('are there for local work, around its work', async () => {
    const { once, tenant, name } = setup()
    const local = once.local(name, {}, () => {
      instrumented('insert')
      return reply(201)
    })
    await inRequest(() => local.run({ tenant, key: 'k', input: null }))
    expect(tree()).toEqual(['insert < oncekey.run', 'oncekey.run < request', 'request < undefined'])
  })

  test('are there in a transaction of the user', async () => {
    const { once, tenant, name } = setup()
    const tx = await database.pool.connect()
    await tx.query('begin')
    await inRequest(() => once.within(tx, { tenant, scope: name, key: 'k' }, () => instrumented('insert')))
    await tx.query('rollback')
    tx.release()
    expect(tree()).toEqual(['insert < oncekey.run', 'oncekey.run < request', 'request < undefined'])
  })

  test('do not hold heartbeats, which belong to no request', async () => {
    const clock = manualClock()
    const store = memoryStore()
    const active: unknown[] = []
    const keyHeartbeat: typeof store.keyHeartbeat = (heartbeat) => {
      active.push(trace.getActiveSpan())
      return store.keyHeartbeat(heartbeat)
    }
    // The real timers carry the context of whoever set them; here the clock says when they are due.
    const schedule: typeof clock.schedule = (task, delayMs, options) => {
      const resource = new AsyncResource('timer')
      return clock.schedule(() => resource.runInAsyncScope(task), delayMs, options)
    }
    const once = createOnce({ store: { ...store, keyHeartbeat }, clock: { ...clock, schedule }, telemetry: early, lease: '15s' })
    await inRequest(() =>
      once.execute(nowhere, async () => {
        clock.advance(5_000)
        return reply(201)
      }),
    )
    expect(active).toEqual([undefined])
  })
})
