import Koa from 'koa'
import { idempotency } from '../../src/adapters/koa.js'
import type { TestDatabase } from '../support/postgres/database.js'
import { type Parts, type Service, startService } from './node-service.js'

export interface KoaParts extends Parts {
  /** The layer, with the options of the test. */
  protect(options?: Partial<Parameters<typeof idempotency>[1]>): Koa.Middleware
}

export interface KoaService extends Service {
  /** What the application was told as its errors. */
  readonly errors: readonly (Error & { readonly code?: string })[]
}

export async function startKoa(
  database: TestDatabase,
  build: (app: Koa, parts: KoaParts) => void,
  onceOptions: Parameters<typeof startService>[2] = {},
): Promise<KoaService> {
  const errors: Error[] = []
  const service = await startService(
    database,
    (parts) => {
      const app = new Koa()
      app.on('error', (error) => errors.push(error))
      build(app, { ...parts, protect: (options) => idempotency(parts.once, { ...parts.options, ...options }) })
      return app.callback()
    },
    onceOptions,
  )
  return { ...service, errors }
}
