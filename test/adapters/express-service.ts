import { createRequire } from 'node:module'
import express, { type ErrorRequestHandler, type Express, type RequestHandler, type Response } from 'express'
import express4 from 'express-4'
import { idempotency } from '../../src/adapters/express.js'
import type { TestDatabase } from '../support/postgres/database.js'
import { type Parts, type Service, startService } from './node-service.js'

export const frameworks: [name: string, framework: typeof express][] = [
  ['Express 5', express],
  ['Express 4', express4],
]

export interface ExpressParts extends Parts {
  /** The layer, with the options of the test. */
  protect(options?: Partial<Parameters<typeof idempotency>[1]>): RequestHandler
  /** Answers with a text and the status of the error, and keeps it for the test. */
  readonly keepErrors: ErrorRequestHandler
}

export interface ExpressService extends Service {
  readonly errors: readonly { readonly code?: string; readonly message?: string }[]
}

export async function startExpress(
  framework: typeof express,
  database: TestDatabase,
  build: (app: Express, parts: ExpressParts) => void,
  onceOptions: Parameters<typeof startService>[2] = {},
): Promise<ExpressService> {
  const errors: { code?: string; message?: string }[] = []
  const keepErrors: ErrorRequestHandler = (error, _request, response, next) => {
    errors.push(error)
    if (response.headersSent) next(error)
    else response.status(error.status ?? 500).send(`error: ${error.message}`)
  }
  const service = await startService(
    database,
    (parts) => {
      const app = framework()
      app.set('env', 'test')
      build(app, { ...parts, keepErrors, protect: (options) => idempotency(parts.once, { ...parts.options, ...options }) })
      return app
    },
    onceOptions,
  )
  return { ...service, errors }
}

/** What is in front of the layer, behind it, and at `POST /work`. */
export interface Mounted {
  readonly before?: RequestHandler
  readonly behind?: RequestHandler
  readonly answer?: (response: Response, run: number) => unknown
  readonly options?: Parameters<ExpressParts['protect']>[0]
}

export function startMounted(
  framework: typeof express,
  database: TestDatabase,
  { before, behind, answer = (response, run) => response.send(`run ${run}`), options }: Mounted,
  onceOptions: Parameters<typeof startExpress>[3] = {},
): Promise<ExpressService> {
  return startExpress(
    framework,
    database,
    (app, { protect, ran }) => {
      if (before) app.use(before)
      app.use(protect(options))
      if (behind) app.use(behind)
      app.post('/work', (_request, response) => void answer(response, ran()))
      app.get('/', (_request, response) => void response.send('home'))
    },
    onceOptions,
  )
}

const require = createRequire(import.meta.url)

/** A package that one of ours brings with it, as middleware in the wild has it. */
export function dependencyOf<T>(name: string, dependency: string): T {
  return createRequire(require.resolve(name))(dependency)
}
