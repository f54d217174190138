import type pg from 'pg'
import { idempotencyOf } from '../../src/http/idempotency.js'
import type { AsyncServeOptions, IdempotencyOptions, StatusOptions, SyncServeOptions } from '../../src/http/options.js'
import { type Servable, type Service, serviceOf } from '../../src/http/serve.js'
import { statusOf } from '../../src/http/status.js'
import { type WebhookOptions, webhookOf } from '../../src/http/webhook.js'
import {
  type Answer,
  createOnce,
  type OnceOptions,
  type OperationOptions,
  type OperationRun,
  reply,
  type StandardSchema,
} from '../../src/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { connectionTo } from '../support/postgres/connection.js'
import type { TestDatabase } from '../support/postgres/database.js'
import { postgresHarness } from '../support/postgres/harness.js'
import { httpRequest, type Native, type RequestParts } from './request.js'
import { type Seen, seen } from './seen.js'

export type ProfileName = 'ietf' | 'stripe'
export type SurfaceName = 'idempotency' | 'serve'

/** Most of the contract holds for an opaque handler and for an operation, in both dialects. */
export const everywhere = (['ietf', 'stripe'] as const).flatMap((profile) =>
  (['idempotency', 'serve'] as const).map((surface) => [surface, profile] as const),
)

/** What a request does. `n` counts; there is no run where the request is not protected. */
export type Work = (n: number, run: OperationRun<pg.PoolClient> | undefined, input?: unknown) => Promise<Answer> | Answer

/** What a test sends its requests to. */
export interface Target {
  send(parts?: RequestParts): Promise<Seen>
  /** How often the work has run. */
  runs(): number
}

type Tx = pg.PoolClient
type HandlerOptions = Partial<IdempotencyOptions<Native>>
type OperationServeOptions = Partial<SyncServeOptions<Native>>
type AcceptOptions = Partial<AsyncServeOptions<Native>>

const anOrder: Work = (n) => reply(201, { order: n }, { location: `/orders/${n}` })

/** Longer than any test may take: time passes by `advance()` only. */
export const leaseMs = 600_000

/** A service on the test's database, with a tenant of its own. */
export async function setup(
  database: TestDatabase,
  profile: ProfileName,
  { pool = database.pool, ...options }: Partial<OnceOptions<Tx>> & { pool?: pg.Pool } = {},
) {
  const { store, advance } = await postgresHarness(connectionTo(database.pool))
  const events: string[] = []
  const onEvent = ({ type }: { type: string }) => void events.push(type)
  const newOnce = () => createOnce<Tx>({ store: postgresStore(connectionTo(pool)), lease: leaseMs, onEvent, ...options })
  const once = newOnce()
  const caller = `tenant-${crypto.randomUUID()}`
  const tenant = ({ caller }: Native) => caller
  let operations = 0

  /** A handler behind `idempotency()`, with an adapter that does what every adapter must. */
  function handler(layerOptions: HandlerOptions = {}, work: Work = anOrder, on = once): Target {
    const layer = idempotencyOf<Native, Tx>(on, { tenant, afterFailure: 'rerun', profile, ...layerOptions })
    let runs = 0
    const perform = async (run?: OperationRun<Tx>) => {
      runs += 1
      return work(runs, run)
    }
    return {
      runs: () => runs,
      async send(parts = {}) {
        let own: Answer | undefined
        const begun = await layer.begin(httpRequest({ caller, ...parts }))
        if (begun.kind === 'pass') return seen(await perform())
        if (begun.kind === 'answer') return seen(begun.answer)
        const { attempt } = begun
        const handled = await attempt.settle(async () => {
          own = await perform(attempt.attempt.run)
          return own
        })
        if (handled.kind === 'answer') return seen(handled.answer)
        const { headers, ...answer } = own as Answer
        const has = (wanted: string) => headers.some(([name]) => name.toLowerCase() === wanted.toLowerCase())
        return seen({ ...answer, headers: [...headers, ...handled.headers.filter(([name]) => !has(name))] })
      },
    }
  }

  /** An operation behind `serve()`. */
  function operation<Schema extends StandardSchema | undefined = undefined>(
    serveOptions: OperationServeOptions = {},
    work: Work = anOrder,
    { on = once, name, ...operationOptions }: OperationOptions<Schema> & { on?: typeof once; name?: string } = {},
  ): Target {
    operations += 1
    let runs = 0
    const served = on.operation(name ?? `orders-${operations}`, operationOptions as OperationOptions<Schema>, (run, input) => {
      runs += 1
      return work(runs, run, input)
    })
    return serving(served, serveOptions, () => runs)
  }

  /** Purely local work behind `serve()`. */
  function local(serveOptions: OperationServeOptions = {}, work: Work = anOrder): Target {
    operations += 1
    let runs = 0
    const served = once.local(`local-${operations}`, {}, (_, input) => {
      runs += 1
      return work(runs, undefined, input)
    })
    return serving(served, serveOptions, () => runs)
  }

  function serving(served: Servable, serveOptions: OperationServeOptions, runs: () => number): Target {
    return { runs, send: sendTo(serviceOf<Native>(served, { tenant, profile, ...serveOptions })) }
  }

  const sendTo =
    (service: Service<Native>) =>
    async (parts: RequestParts = {}) =>
      seen(await service.answer(httpRequest({ caller, ...parts })))

  /** An operation behind `serve()` that leaves its requests to workers, its status resource, and a worker. */
  function accepting<Schema extends StandardSchema | undefined = undefined>(
    acceptOptions: AcceptOptions = {},
    work: Work = anOrder,
    { on = once, name, ...operationOptions }: OperationOptions<Schema> & { on?: typeof once; name?: string } = {},
    statusOptions: Partial<StatusOptions<Native>> = {},
  ) {
    operations += 1
    let runs = 0
    const served = on.operation(name ?? `orders-${operations}`, operationOptions as OperationOptions<Schema>, (run, input) => {
      runs += 1
      return work(runs, run, input)
    })
    const location = (id: string) => `/operations/${id}`
    const ask = sendTo(statusOf<Native, Tx>(on, { tenant, profile, ...statusOptions }))
    return {
      operation: served,
      runs: () => runs,
      send: sendTo(serviceOf<Native>(served, { tenant, profile, respond: 'async', location, ...acceptOptions })),
      /** Asks for the state, at the address that was given. */
      look: (url: string | undefined, parts: RequestParts = {}) => ask({ method: 'GET', url: url ?? '', ...parts }),
      /** What a worker does. */
      carryOut: (key = 'k') => served.resume({ tenant: caller, key }),
    }
  }

  /** A consumer behind `webhook()`. */
  function webhook(options: WebhookOptions<Native>): Target {
    operations += 1
    let runs = 0
    const consumer = once.consumer(`events-${operations}`, { tenant: caller }, () => {
      runs += 1
    })
    return { runs: () => runs, send: sendTo(webhookOf(consumer, { profile, ...options })) }
  }

  return {
    once,
    /** Another process, or this one after a deploy. */
    newOnce,
    store,
    caller,
    events,
    advance,
    handler,
    operation,
    local,
    accepting,
    webhook,
    /** One or the other, with options that both have. */
    on: (surface: SurfaceName, common: OperationServeOptions = {}, work: Work = anOrder): Target =>
      surface === 'serve' ? operation(common, work) : handler(common as HandlerOptions, work),
    /** How many keys of this tenant the store knows. */
    async keys() {
      const { rows } = await database.pool.query('select count(*)::integer as count from oncekey.keys where tenant = $1', [caller])
      return rows[0].count as number
    },
  }
}

/** Work that waits until the test opens the gate, and says when it has come there. */
export function gated(work: Work = anOrder) {
  let open = () => {}
  let arrive = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve
  })
  const behindGate: Work = async (n, run, input) => {
    arrive()
    await opened
    return work(n, run, input)
  }
  return { work: behindGate, arrived, open }
}
