import { Agent, request as httpRequest } from 'node:http'
import type pg from 'pg'
import { createOnce, type Once, type OnceEvent, type OnceOptions } from '../../src/index.js'
import { type Answered, type Sent, send } from '../../src/testing/adapter-cases/client.js'
import { connectionTo } from '../support/postgres/connection.js'
import type { TestDatabase } from '../support/postgres/database.js'
import { postgresHarness } from '../support/postgres/harness.js'

/** What a test of an adapter needs on the server's side: a tenant of its own, and what happened to its keys. */
export interface Service {
  readonly once: Once<pg.PoolClient>
  readonly tenant: string
  readonly events: readonly OnceEvent['type'][]
  /** The state of a key; undefined if there is none. */
  stateOf(scope?: string, key?: string): Promise<string | undefined>
  /** Lets time pass for every key. */
  advance(ms: number): Promise<void>
}

export interface ServiceOptions extends Partial<OnceOptions<pg.PoolClient>> {
  /** Called before the store does what is named. */
  readonly before?: (verb: string) => Promise<void> | void
}

export async function openService(database: TestDatabase, { before, ...options }: ServiceOptions = {}): Promise<Service> {
  const { store: real, advance } = await postgresHarness(connectionTo(database.pool))
  const store = before ? watched(real, before) : real
  const events: OnceEvent['type'][] = []
  const tenant = `tenant-${crypto.randomUUID()}`
  return {
    // A lease so long that no machine is too slow for it.
    once: createOnce({ store, lease: '10m', onEvent: ({ type }) => void events.push(type), ...options }),
    tenant,
    events,
    stateOf: async (scope = 'POST /work', key = 'key-1') => (await store.keyRead({ tenant, scope, key }))?.state,
    advance: async (ms) => advance(ms),
  }
}

function watched<S extends object>(store: S, before: (verb: string) => Promise<void> | void): S {
  return new Proxy(store, {
    get(target, name) {
      const verb = Reflect.get(target, name, target)
      if (typeof verb !== 'function') return verb
      return async (...args: unknown[]) => {
        await before(String(name))
        return verb.apply(target, args)
      }
    },
  })
}

export interface Client {
  /** By default a POST of JSON to `/work` with the key `key-1`. */
  send(request?: Partial<Sent>): Promise<Answered>
  /** The first answer, and the one to the same request again. */
  twice(request?: Partial<Sent>): Promise<[Answered, Answered]>
}

export function clientOf(url: string, tenant: string): Client {
  const sendOnce = (request: Partial<Sent> = {}) => send(url, { ...standard, tenant, ...request })
  return {
    send: sendOnce,
    twice: async (request) => [await sendOnce(request), await sendOnce(request)],
  }
}

const standard: Omit<Sent, 'tenant'> = {
  method: 'POST',
  path: '/work',
  key: '"key-1"',
  headers: { 'content-type': 'application/json' },
  body: '{"item":"tea"}',
}

/** One connection for all of its requests. */
export function oneConnection(url: string, tenant: string) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  let opened = 0
  return {
    /** How many connections it took. */
    opened: () => opened,
    close: () => agent.destroy(),
    /** Null: without a key. */
    post: (key: string | null, path = '/work') =>
      new Promise<{ status: number; text: string }>((resolve, reject) => {
        const named = key === null ? {} : { 'idempotency-key': `"${key}"` }
        const headers = { 'content-type': 'application/json', 'x-tenant': tenant, ...named }
        const request = httpRequest(new URL(path, url), { method: 'POST', agent, headers }, (response) => {
          if (!request.reusedSocket) opened += 1
          let text = ''
          response.setEncoding('utf8').on('data', (piece: string) => {
            text += piece
          })
          response.on('error', reject).on('end', () => resolve({ status: response.statusCode as number, text }))
        })
        request.on('error', reject).end('{"item":"tea"}')
      }),
  }
}

export const textOf = ({ body }: Answered) => body.toString('utf8')
export const jsonOf = (answered: Answered) => JSON.parse(textOf(answered))
export const isReplay = (answered: Answered) => answered.lines('idempotent-replayed')[0] === 'true'
