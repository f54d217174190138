import { type Agent, request as httpRequest, type RequestListener } from 'node:http'
import type pg from 'pg'
import { expect, onTestFinished } from 'vitest'
import { type IdempotencyOptions, idempotency } from '../../src/adapters/fetch.js'
import { createOnce, type KeyFinish, type OnceEvent, type OnceOptions } from '../../src/index.js'
import { connectionTo } from '../support/postgres/connection.js'
import type { TestDatabase } from '../support/postgres/database.js'
import { postgresHarness } from '../support/postgres/harness.js'
import { fetchListener } from './fetch-listener.js'
import { listen } from './listen.js'

export interface Sent {
  method?: string
  path?: string
  /** Null: no key at all. */
  key?: string | null
  headers?: Record<string, string>
  /** A list: sent in chunks. */
  body?: string | Uint8Array | readonly string[] | null
  agent?: Agent
}

/** An answer with everything that came over the wire. */
export interface Seen {
  readonly status: number
  /** But for those of the moment and of the connection. */
  readonly headers: Readonly<Record<string, string | string[]>>
  readonly framing: Readonly<Record<string, string | undefined>>
  readonly bytes: Buffer
  readonly text: string
  readonly replayed: boolean
}

const framingNames = ['date', 'connection', 'keep-alive', 'transfer-encoding', 'content-length']

/** A service over Postgres for one test, with a tenant of its own. */
export async function openBench(database: TestDatabase, options: Partial<OnceOptions<pg.PoolClient>> = {}) {
  const { store: real, advance } = await postgresHarness(connectionTo(database.pool))
  let beforeFinish = async () => {}
  const store = new Proxy(real, {
    get(target, name) {
      if (name !== 'keyFinish') return Reflect.get(target, name, target)
      return async (finish: KeyFinish) => {
        await beforeFinish()
        return target.keyFinish(finish)
      }
    },
  })
  const events: OnceEvent[] = []
  const once = createOnce<pg.PoolClient>({ store, lease: '10m', onEvent: (event) => void events.push(event), ...options })
  const tenant = `tenant-${crypto.randomUUID()}`
  let url = ''

  const send = (sent: Sent = {}) => sendTo(url, { ...sent, headers: { 'x-tenant': tenant, ...sent.headers } })
  return {
    once,
    store,
    advance,
    events,
    tenant,
    get url() {
      return url
    },
    /** What the store does before it stores an answer, from now on. */
    beforeFinish(action: () => Promise<void>) {
      beforeFinish = action
    },
    /** The types of what happened to the keys. */
    happened: () => events.map(({ type }) => type),
    async listen(listener: RequestListener) {
      const server = await listen(listener)
      onTestFinished(() => server.close())
      url = server.url
    },
    send,
    /** Sends it twice: the second is a replay that differs in nothing but its mark. */
    async sendTwice(sent: Sent = {}) {
      const first = await send(sent)
      const again = await send(sent)
      expect([first.replayed, again.replayed]).toEqual([false, true])
      expect(withoutMark(again)).toEqual(withoutMark(first))
      return first
    },
    keyState: async (scope = 'POST /orders', key = 'k') => (await store.keyRead({ tenant, scope, key }))?.state,
  }
}

export const tenant = (request: Request) => request.headers.get('x-tenant') as string

/** A handler behind the layer, on a plain bridge; `call` is for requests that come over no wire. */
export async function openFetch(
  database: TestDatabase,
  handler: (request: Request, run: number) => Response | Promise<Response>,
  { options = {}, once = {} }: { options?: Partial<IdempotencyOptions<Request>>; once?: Partial<OnceOptions<pg.PoolClient>> } = {},
) {
  const bench = await openBench(database, once)
  let runs = 0
  const call = idempotency(bench.once, { tenant, afterFailure: 'rerun', ...options })((request: Request) => {
    runs += 1
    return handler(request, runs)
  })
  const errors: unknown[] = []
  await bench.listen(
    fetchListener((request) =>
      call(request).catch((error: unknown) => {
        errors.push(error)
        throw error
      }),
    ),
  )
  const request = (init: RequestInit = {}) =>
    new Request('http://localhost/orders', {
      method: 'POST',
      ...init,
      headers: { 'idempotency-key': 'k', 'x-tenant': bench.tenant, 'content-type': 'application/json', ...init.headers },
    })
  return { ...bench, call, request, runs: () => runs, errors }
}

/** A promise for a test to keep. */
export function gate() {
  let open!: () => void
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { open, opened }
}

/** What must be equal in a replay. */
export function withoutMark({ status, text, headers: { 'idempotent-replayed': _, ...headers } }: Seen) {
  return { status, headers, text }
}

/** No redirects, no decompression, nothing joined. */
function sendTo(
  url: string,
  { method = 'POST', path = '/orders', key = 'k', headers, body = '{"item":"tea"}', agent }: Sent,
): Promise<Seen> {
  return new Promise((resolve, reject) => {
    const whole = typeof body === 'string' || body instanceof Uint8Array ? body : undefined
    const request = httpRequest(
      new URL(path, url),
      {
        method,
        agent: agent ?? false,
        headers: {
          ...(whole === undefined ? {} : { 'content-length': Buffer.byteLength(whole), 'content-type': 'application/json' }),
          ...(key === null ? {} : { 'idempotency-key': key }),
          ...headers,
        },
      },
      (response) => {
        const pieces: Buffer[] = []
        response.on('data', (piece: Buffer) => pieces.push(piece)).on('error', reject)
        response.on('end', () => {
          const bytes = Buffer.concat(pieces)
          const all = Object.entries(response.headers) as [string, string][]
          resolve({
            status: response.statusCode as number,
            headers: Object.fromEntries(all.filter(([name]) => !framingNames.includes(name))),
            framing: Object.fromEntries(all.filter(([name]) => framingNames.includes(name))),
            bytes,
            text: bytes.toString('latin1'),
            replayed: response.headers['idempotent-replayed'] === 'true',
          })
        })
      },
    )
    request.on('error', reject)
    if (Array.isArray(body)) for (const piece of body) request.write(piece)
    request.end(whole)
  })
}
