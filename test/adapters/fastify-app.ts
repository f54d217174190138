import type { AddressInfo } from 'node:net'
import fastify, { type FastifyInstance, type FastifyRequest, type FastifyServerOptions } from 'fastify'
import { onTestFinished } from 'vitest'
import { type IdempotencyOptions, idempotency } from '../../src/adapters/fastify.js'
import type { TestDatabase } from '../support/postgres/database.js'
import { type Client, clientOf, openService, type Service, type ServiceOptions } from './service.js'

export const tenant = (request: FastifyRequest) => request.headers['x-tenant'] as string

export interface Running extends Service, Client {
  readonly url: string
  readonly app: FastifyInstance
  /** The lines that Fastify logged, from "info". */
  readonly log: readonly LogLine[]
}

export interface LogLine {
  readonly level: number
  readonly msg?: string
  readonly err?: { readonly message: string; readonly code?: string }
}

export interface Setup {
  readonly fastify?: FastifyServerOptions
  readonly once?: ServiceOptions
  readonly service?: Service
}

/** An application on a real socket, which is closed when the test is over. */
export async function start(
  database: TestDatabase,
  build: (app: FastifyInstance, service: Service) => unknown,
  setup: Setup = {},
): Promise<Running> {
  const service = setup.service ?? (await openService(database, setup.once))
  const log: LogLine[] = []
  const stream = { write: (line: string) => void log.push(JSON.parse(line)) }
  const app = fastify({ forceCloseConnections: true, logger: { level: 'info', stream }, ...setup.fastify } as FastifyServerOptions)
  await build(app as unknown as FastifyInstance, service)
  await app.listen({ port: 0, host: '127.0.0.1' })
  onTestFinished(() => app.close())
  const url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`
  return { ...service, ...clientOf(url, service.tenant), url, app: app as unknown as FastifyInstance, log }
}

/** The same, with the plugin in front of everything that is built. */
export const startProtected = (
  database: TestDatabase,
  build: (app: FastifyInstance, service: Service) => unknown,
  { options, ...setup }: Setup & { readonly options?: Partial<IdempotencyOptions<FastifyRequest>> } = {},
): Promise<Running> =>
  start(
    database,
    async (app, service) => {
      await app.register(idempotency(service.once, { tenant, afterFailure: 'rerun', ...options }))
      await build(app, service)
    },
    setup,
  )

/** What Fastify complains about. */
export const complaints = ({ log }: Pick<Running, 'log'>): readonly LogLine[] => log.filter(({ level }) => level >= 40)
