import 'reflect-metadata'
import type { AddressInfo } from 'node:net'
import {
  Controller,
  HttpCode,
  type INestApplication,
  type LoggerService,
  Module,
  type ModuleMetadata,
  type NestApplicationOptions,
  Post,
  type Type,
} from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { ExpressAdapter } from '@nestjs/platform-express'
import { FastifyAdapter } from '@nestjs/platform-fastify'
import { onTestFinished } from 'vitest'
import { IdempotencyModule, type IdempotencyOptions, type NestRequest } from '../../src/adapters/nest.js'
import type { TestDatabase } from '../support/postgres/database.js'
import { type Client, clientOf, openService, type Service, type ServiceOptions } from './service.js'

type ByName<Value> = { readonly [method: string]: Value }

interface Decorators {
  /** What stands above the class. */
  readonly on?: readonly ClassDecorator[]
  /** What stands above a method. */
  readonly methods?: ByName<readonly MethodDecorator[]>
  /** What stands before the parameters of a method. */
  readonly parameters?: ByName<readonly ParameterDecorator[]>
}

/** Does what `@A() @B() class …` does: the runner's compiler knows nothing of the decorators that Nest needs. */
export function decorated<Class extends Type>(target: Class, { on = [], methods = {}, parameters = {} }: Decorators): Class {
  for (const [name, decorators] of Object.entries(parameters)) {
    for (const [index, decorate] of decorators.entries()) decorate(target.prototype, name, index)
  }
  for (const [name, decorators] of Object.entries(methods)) {
    const descriptor = Object.getOwnPropertyDescriptor(target.prototype, name) as PropertyDescriptor
    // From the nearest to the outermost, as the language does it.
    for (const decorate of decorators.toReversed()) decorate(target.prototype, name, descriptor)
  }
  for (const decorate of on.toReversed()) decorate(target)
  return target
}

export type Platform = 'Express' | 'Fastify'
export const platforms: readonly Platform[] = ['Express', 'Fastify']

export interface NestSetup extends ModuleMetadata {
  readonly options?: NestApplicationOptions
  /** As in `main.ts`, before the application listens. */
  readonly main?: (app: INestApplication) => unknown
}

export interface RunningNest {
  readonly url: string
  /** Everything above "debug" that Nest or Fastify logged. */
  readonly log: readonly string[]
  close(): Promise<void>
}

/** An application on a real socket. */
export async function startNest(platform: Platform, { options, main, ...metadata }: NestSetup): Promise<RunningNest> {
  class AppModule {}
  Module(metadata)(AppModule)
  const log: string[] = []
  const app = await NestFactory.create(AppModule, adapterOf(platform, log), {
    rawBody: true,
    forceCloseConnections: true,
    logger: loggerInto(log),
    abortOnError: false,
    ...options,
  })
  await main?.(app)
  await app.listen(0, '127.0.0.1')
  return {
    url: `http://127.0.0.1:${(app.getHttpServer().address() as AddressInfo).port}`,
    log,
    close: () => app.close(),
  }
}

function adapterOf(platform: Platform, log: string[]): ExpressAdapter | FastifyAdapter {
  if (platform === 'Express') return new ExpressAdapter()
  return new FastifyAdapter({ bodyLimit: 10_000_000, logger: { level: 'warn', stream: { write: (line: string) => void log.push(line) } } })
}

function loggerInto(log: string[]): LoggerService {
  const note = (message: unknown, ...rest: unknown[]) => void log.push([message, ...rest].map(String).join(' '))
  return { log: () => {}, debug: () => {}, verbose: () => {}, warn: note, error: note, fatal: note }
}

export const tenant = (request: NestRequest) => request.headers['x-tenant'] as string

/** What both platforms' responses have. */
export interface AnyResponse {
  readonly statusCode: number
  status(code: number): this
  header(name: string, value: string | string[]): this
  send(body?: unknown): this
}

export interface Running extends Service, Client, RunningNest {}

export interface Setup {
  readonly once?: ServiceOptions
  readonly service?: Service
}

/** An application with a service of its own, which is closed when the test is over. */
export async function start(
  database: TestDatabase,
  platform: Platform,
  build: (service: Service) => NestSetup,
  setup: Setup = {},
): Promise<Running> {
  const service = setup.service ?? (await openService(database, setup.once))
  const running = await startNest(platform, build(service))
  onTestFinished(running.close)
  return { ...service, ...clientOf(running.url, service.tenant), ...running }
}

/** The same, with the module in front of everything. */
export const startProtected = (
  database: TestDatabase,
  platform: Platform,
  build: (service: Service) => NestSetup,
  { options, ...setup }: Setup & { readonly options?: Partial<IdempotencyOptions<NestRequest>> } = {},
): Promise<Running> =>
  start(
    database,
    platform,
    (service) => {
      const { imports = [], ...rest } = build(service)
      return { ...rest, imports: [IdempotencyModule.forRoot(service.once, { tenant, afterFailure: 'rerun', ...options }), ...imports] }
    },
    setup,
  )

/** A controller with one route, `POST /work`. */
export function workController(
  work: (...args: never[]) => unknown,
  {
    decorators = [],
    parameters = [],
    on = [],
  }: { decorators?: MethodDecorator[]; parameters?: ParameterDecorator[]; on?: ClassDecorator[] } = {},
): Type {
  class WorkController {
    work(...args: unknown[]) {
      return (work as (...args: unknown[]) => unknown)(...args)
    }
  }
  return decorated(WorkController, {
    on: [Controller(), ...on],
    methods: { work: [...decorators, Post('work'), HttpCode(200)] },
    parameters: { work: parameters },
  })
}
