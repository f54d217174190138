import type pg from 'pg'
import { describe, expect, test } from 'vitest'
import { idempotencyOf } from '../../src/http/idempotency.js'
import { rememberAttempt } from '../../src/http/run-of.js'
import { serviceOf } from '../../src/http/serve.js'
import { type Answer, reply } from '../../src/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { httpRequest, type Native } from './request.js'
import { isReplay, problemOf } from './seen.js'
import { setup } from './setup.js'

const database = useDatabase()

const key = 'k'
const body = '{"amount":100}'

describe.each(['ietf', 'stripe'] as const)('the run of a handler behind idempotency() in the %s profile', (profile) => {
  test('D6 makes it resume: a phase that was committed is not repeated when the handler runs again', async () => {
    const { handler } = await setup(database, profile)
    let phases = 0
    const { send, runs } = handler({}, async (n, run) => {
      const ordered = await run?.phase('ordered', () => {
        phases += 1
        return { by: n }
      })
      if (n === 1) throw new Error('boom')
      return reply(201, { ordered, attempt: run?.attempt })
    })
    await expect(send({ key, body })).rejects.toThrow('boom')
    expect((await send({ key, body })).json).toEqual({ ordered: { by: 1 }, attempt: 2 })
    expect({ runs: runs(), phases }).toEqual({ runs: 2, phases: 1 })
  })

  test('D6 parks it: the outcome of a call that nobody knows is unknown for the first client already', async () => {
    const { handler } = await setup(database, profile)
    const { send, runs } = handler({}, async (_, run) => {
      const lost = () => {
        throw new Error('connection reset')
      }
      await run?.call('charge', lost, { whenUnknown: 'park' }).catch(() => {})
      return reply(201, { charged: 'who knows' })
    })
    for (const answer of [await send({ key, body }), await send({ key, body })]) {
      expect(problemOf(answer)).toEqual({ status: 500, code: 'outcome_unknown' })
      expect(isReplay(answer)).toBe(false)
    }
    expect(runs()).toBe(1)
  })

  test('stores what run.finish() says, and that is what the client gets, whatever the handler answers', async () => {
    const { handler } = await setup(database, profile)
    const { send, runs } = handler({}, async (_, run) => {
      await run?.finish(() => reply(201, { stored: true }))
      return reply(500, { stored: false })
    })
    const [first, second] = [await send({ key, body }), await send({ key, body })]
    expect([first, second].map(({ status, json }) => [status, json])).toEqual([
      [201, { stored: true }],
      [201, { stored: true }],
    ])
    expect([first, second].map(isReplay)).toEqual([false, true])
    expect(runs()).toBe(1)
  })

  test('D6 a handler that hangs is cut off by maxRun: 503, and a retry runs it', async () => {
    const { handler } = await setup(database, profile)
    const { send, runs } = handler({ maxRun: '50ms' }, (n) => (n === 1 ? new Promise<Answer>(() => {}) : reply(201, { order: n })))
    const first = await send({ key, body })
    expect(problemOf(first)).toEqual({ status: 503, code: 'interrupted' })
    expect(Number(first.header('retry-after'))).toBeGreaterThanOrEqual(1)
    expect((await send({ key, body })).json).toEqual({ order: 2 })
    expect(runs()).toBe(2)
  })

  test('there is none for a request that is not protected', async () => {
    const { handler } = await setup(database, profile)
    const seen: unknown[] = []
    const { send } = handler({}, (_, run) => {
      seen.push(run)
      return reply(200)
    })
    await send({ body })
    await send({ method: 'GET', key })
    expect(seen).toEqual([undefined, undefined])
  })

  test('does not hold an operation: serve() behind idempotency() is an error, n=0', async () => {
    const { once, caller } = await setup(database, profile)
    let runs = 0
    const operation = once.operation('inner', {}, () => {
      runs += 1
      return reply(201)
    })
    const service = serviceOf<Native>(operation, { tenant: () => caller, profile })
    const layer = idempotencyOf<Native, pg.PoolClient>(once, { tenant: () => caller, afterFailure: 'rerun', profile })
    const request = httpRequest({ key, body })
    const begun = await layer.begin(request)
    if (begun.kind !== 'run') throw new Error(`the handler may not run: ${begun.kind}`)
    const nested = begun.attempt.settle(() => {
      rememberAttempt(request.native, begun.attempt.attempt)
      return service.answer(request)
    })
    await expect(nested).rejects.toMatchObject({ code: 'layers_nested' })
    expect(runs).toBe(0)
  })
})
