// What is published is what is answered: each route is driven into everything that the layer can say, and that is compared.

import type pg from 'pg'
import { describe, test } from 'vitest'
import { z } from 'zod'
import { idempotencyOf } from '../../src/http/idempotency.js'
import { field } from '../../src/http/key-source.js'
import { describeIdempotency, type RouteOptions } from '../../src/http/openapi.js'
import type { IdempotencyOptions, ServeOptions } from '../../src/http/options.js'
import type { HttpBody, HttpRequest } from '../../src/http/request.js'
import { serviceOf } from '../../src/http/serve.js'
import { type Answer, createOnce, type Once, type OperationRun, reply } from '../../src/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { connectionTo } from '../support/postgres/connection.js'
import { useDatabase } from '../support/postgres/database.js'
import { postgresHarness } from '../support/postgres/harness.js'
import { waitUntil } from '../support/wait-until.js'
import { expectPublished } from './published.js'

const database = useDatabase()

/** Longer than the test: time passes by `advance()` only. */
const lease = '10m'

type Run = OperationRun<pg.PoolClient>
type Work = (run: Run) => Promise<Answer> | Answer
/** Answers a request, or lets the handler do it: then there is nothing of ours to see. */
interface Ask {
  ask(request: HttpRequest): Promise<Answer | undefined>
  readonly once: Once<pg.PoolClient>
  /** Leaves the same work to workers, which is another route's business. */
  enqueue?(key: string): Promise<unknown>
}

interface Sent {
  readonly key?: string
  readonly body?: object
  readonly mediaType?: string
  readonly arrives?: HttpBody
}

/** The same request for both places that a key can be in. */
function requestOf(inBody: boolean, { key, body = { amount: 1 }, mediaType = 'application/json', arrives }: Sent): HttpRequest {
  const text = JSON.stringify(inBody && key !== undefined ? { ...body, ref: key } : body)
  const headers: Record<string, string> = { 'content-type': mediaType, 'content-length': String(text.length) }
  if (!inBody && key !== undefined) headers['idempotency-key'] = key
  return {
    method: 'POST',
    path: '/orders',
    query: '',
    headerLines: (name) => (headers[name.toLowerCase()] === undefined ? [] : [headers[name.toLowerCase()] as string]),
    body: async () => arrives ?? { bytes: Buffer.from(text) },
    native: {},
  }
}

/** All that the layer of a route says, however it is provoked. */
async function everythingSaid(options: RouteOptions, makeAsk: (pool: pg.Pool, work: Work) => Ask): Promise<Answer[]> {
  const { advance } = await postgresHarness(connectionTo(database.pool))
  const said: Answer[] = []
  const inBody = typeof options.key === 'object' && options.key.kind === 'field'
  const opaque = options.afterFailure !== undefined
  const client = (work: Work, pool = database.pool) => {
    const { ask } = makeAsk(pool, work)
    return async (sent: Sent) => {
      const answer = await ask(requestOf(inBody, sent)).catch(() => undefined)
      if (answer) said.push(answer)
      return answer
    }
  }
  const order = client(() => reply(201, { id: 1 }))
  const body = { amount: 1 }

  await order({ body })
  await order({ key: '', body })
  await order({ key: 'incomplete', arrives: { failed: 'incomplete' } })
  await order({ key: 'too-large', arrives: { failed: 'too_large' } })
  // What an opaque handler makes of these is its own business.
  if (!opaque) {
    await order({ key: 'form', mediaType: 'application/x-www-form-urlencoded' })
    await order({ key: 'invalid', body: { amount: 'much' } })
  }
  await order({ key: 'reused', body })
  await order({ key: 'reused', body: { amount: 2 } })

  const large = client(() => reply(200, 'x'.repeat(5_000)))
  await large({ key: 'large', body })
  await large({ key: 'large', body })

  const failing = client(() => {
    throw new Error('the till is on fire')
  })
  await failing({ key: 'failing', body })
  await failing({ key: 'failing', body })

  await frozenHolder()

  const ended = database.createPool()
  await ended.end()
  await client(() => reply(201), ended)({ key: 'outage', body })

  const other = makeAsk(database.pool, () => reply(201))
  await other.enqueue?.('late')
  await advance(48 * 3_600_000)
  await postgresStore(connectionTo(database.pool)).upkeep.keysTimeOut({ limit: 1_000 })
  await database.pool.query(`update oncekey.keys set fingerprint = null where key = 'late'`)
  if (other.enqueue) said.push((await other.ask(requestOf(inBody, { key: 'late', body }))) as Answer)
  await other.once.stop()
  said.push((await other.ask(requestOf(inBody, { key: 'stopping', body }))) as Answer)
  return said

  /** A holder stops in the middle of its work: others meet it, then take over, and it finds that it has lost the key. */
  async function frozenHolder() {
    let goOn = () => {}
    let runs = 0
    const freeze = () => new Promise<Answer>((resolve) => (goOn = () => resolve(reply(201))))
    const freezing = client(async (run) => {
      runs += 1
      if (runs > 1 && opaque) return reply(201)
      if (opaque) return freeze()
      // An operation freezes in a call that must not be made twice.
      await run.call('charge', () => freeze().then(() => null), { whenUnknown: 'park' })
      return reply(201)
    })
    const holder = freezing({ key: 'frozen', body })
    await waitUntil('the holder works', () => runs === 1)
    await freezing({ key: 'frozen', body })
    await advance(10 * 60_000)
    await freezing({ key: 'frozen', body })
    goOn()
    await holder
  }
}

const common = { maxAnswerBytes: 1_000, lease } as const

/** The layer of `idempotency()`, without a framework: what its handler answers is not of interest here. */
const handlerOf =
  (tenant: string, options: RouteOptions) =>
  (pool: pg.Pool, work: Work): Ask => {
    const once = createOnce<pg.PoolClient>({ store: postgresStore(connectionTo(pool)), ...common })
    const layer = idempotencyOf<unknown, pg.PoolClient>(once, { ...(options as IdempotencyOptions<unknown>), tenant: () => tenant })
    return {
      once,
      async ask(request) {
        const begun = await layer.begin(request)
        if (begun.kind !== 'run') return begun.kind === 'answer' ? begun.answer : undefined
        const leaving = await begun.attempt.settle(async () => work(begun.attempt.attempt.run))
        return leaving.kind === 'answer' ? leaving.answer : undefined
      },
    }
  }

const operationOf =
  (tenant: string, options: RouteOptions) =>
  (pool: pg.Pool, work: Work): Ask => {
    const once = createOnce<pg.PoolClient>({ store: postgresStore(connectionTo(pool)), ...common })
    const input = z.object({ amount: z.number() })
    const makesKey = options.operation?.makesKey ? { key: () => 'made' } : {}
    const operation = once.operation(`orders-${tenant}`, { input, ...makesKey }, work)
    const service = serviceOf(operation, { ...(options as ServeOptions<unknown>), tenant: () => tenant })
    return {
      once,
      enqueue: (key) => operation.enqueue({ tenant, key, input: { amount: 1 } }),
      async ask(request) {
        const answer = await service.answer(request)
        // The operation's own answers are 201 and 200, and nothing else is.
        return answer.status === 201 || answer.status === 200 ? undefined : answer
      },
    }
  }

const dialects: RouteOptions[] = [{ profile: 'ietf' }, { profile: 'stripe' }]
const ways: RouteOptions[] = [
  {},
  { required: true },
  { whenInProgress: 'accepted' },
  { whenInProgress: 'wait', wait: '50ms' },
  { key: field('ref'), required: true },
  { problemBase: 'https://api.example.com/problems/' },
]

describe('idempotency()', () => {
  const routes = [
    ...dialects.flatMap((dialect) => ways.map((way): RouteOptions => ({ ...dialect, ...way, afterFailure: 'rerun' }))),
    ...dialects.flatMap((dialect) => (['store', 'park'] as const).map((afterFailure): RouteOptions => ({ ...dialect, afterFailure }))),
    { afterFailure: 'rerun', failOpen: true } as const,
  ]
  test.each(routes.map((options) => [options]))('%o', async (options) => {
    expectPublished(describeIdempotency(options).responses, await everythingSaid(options, handlerOf(crypto.randomUUID(), options)))
  })
})

describe('serve()', () => {
  const routes: RouteOptions[] = [
    ...dialects.flatMap((dialect) => ways.map((way) => ({ ...dialect, ...way }))),
    { operation: { makesKey: true } },
  ]
  test.each(routes.map((options) => [options]))('%o', async (options) => {
    expectPublished(describeIdempotency(options).responses, await everythingSaid(options, operationOf(crypto.randomUUID(), options)))
  })
})
