import { once as eventOf } from 'node:events'
import { Agent, createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import express, { type Express, type Request, type Response } from 'express'
import type pg from 'pg'
import Stripe from 'stripe'
import { onTestFinished } from 'vitest'
import { type IdempotencyOptions, idempotency } from '../../src/adapters/express.js'
import { createOnce, type Once, type OnceOptions } from '../../src/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { connectionTo } from '../support/postgres/connection.js'
import { type CuttingRelay, startRelay } from './cutting-relay.js'
import { type Gate, gate } from './gate.js'

export interface StripeService {
  /** Stripe's own client, pointed at the service by way of the relay. */
  client(settings?: { account?: string; maxNetworkRetries?: number }): Stripe
  readonly relay: CuttingRelay
  /** Holds the work before it charges. */
  readonly work: Gate
  /** What the server was sent and what it answered, one for each answer. */
  readonly exchanges: { readonly key: string | undefined; readonly status: number }[]
  /** The amounts that were charged. */
  charged(): Promise<number[]>
  /** How often the work began. */
  runs(): number
}

interface Settings {
  readonly options?: Partial<IdempotencyOptions<Request>>
  readonly once?: Partial<OnceOptions<pg.PoolClient>>
  /** What the work answers instead of the charge; it sees how often it was called. */
  readonly answer?: (response: Response, run: number) => unknown
  /** Instead of the standard routes. */
  readonly routes?: (app: Express, once: Once<pg.PoolClient>) => void
}

/** A service in Stripe's dialect: form-encoded bodies in, Stripe's objects and errors out, charges in a real table. */
export async function startStripe(pool: pg.Pool, { options, once: onceOptions, answer, routes }: Settings = {}): Promise<StripeService> {
  const once = createOnce({ store: postgresStore(connectionTo(pool)), ...onceOptions })
  const work = gate()
  const exchanges: { key: string | undefined; status: number }[] = []
  let runs = 0
  const table = `charges_${Math.random().toString(36).slice(2)}`
  await pool.query(`create table ${table} (id bigint generated always as identity primary key, amount integer not null)`)

  const app = express()
  app.use((request, response, next) => {
    response.once('finish', () => exchanges.push({ key: request.get('idempotency-key'), status: response.statusCode }))
    next()
  })
  if (routes) routes(app, once)
  else {
    app.use(idempotency(once, { profile: 'stripe', tenant: accountOf, afterFailure: 'store', ...options }))
    app.use(express.urlencoded({ extended: true }))
    app.post(['/v1/charges', '/v1/refunds'], async (request, response) => {
      runs += 1
      const run = runs
      await work.pass()
      if (answer) return void answer(response, run)
      const { rows } = await pool.query<{ id: string }>(`insert into ${table} (amount) values ($1) returning id`, [request.body.amount])
      response.json({ id: `ch_${rows[0]?.id}`, object: 'charge', amount: Number(request.body.amount) })
    })
  }
  const server = createServer(app).listen(0, '127.0.0.1')
  await eventOf(server, 'listening')
  const relay = await startRelay((server.address() as AddressInfo).port)
  const httpAgent = new Agent({ keepAlive: true })
  onTestFinished(() => {
    work.open()
    httpAgent.destroy()
    server.close()
    server.closeAllConnections()
  })

  return {
    client: ({ account = 'sk_test_acme', maxNetworkRetries = 2 } = {}) =>
      new Stripe(account, { host: '127.0.0.1', port: relay.port, protocol: 'http', httpAgent, maxNetworkRetries }),
    relay,
    work,
    exchanges,
    async charged() {
      return (await pool.query<{ amount: number }>(`select amount from ${table} order by id`)).rows.map(({ amount }) => amount)
    },
    runs: () => runs,
  }
}

/** Stripe's clients send their secret key as a bearer token. */
export function accountOf(request: Request): string {
  return request.get('authorization')?.replace('Bearer ', '') ?? 'nobody'
}
