import { type Context, Hono } from 'hono'
import type pg from 'pg'
import { type IdempotencyOptions, idempotency } from '../../src/adapters/hono.js'
import type { Once, OnceOptions } from '../../src/index.js'
import type { TestDatabase } from '../support/postgres/database.js'
import { openBench } from './fetch-bench.js'
import { honoListener } from './hono-listener.js'

export type LayerOptions = Partial<IdempotencyOptions<Context>>

export const tenant = (c: Context) => c.req.header('x-tenant') as string

export function layer(once: Once<pg.PoolClient>, options: LayerOptions = {}) {
  return idempotency(once, { tenant, afterFailure: 'rerun', ...options })
}

/** An application, and what a test needs to try it. `count` is for its handlers to call. */
export async function openHono(
  database: TestDatabase,
  build: (app: Hono, parts: HonoParts) => unknown,
  options: Partial<OnceOptions<pg.PoolClient>> = {},
) {
  const bench = await openBench(database, options)
  const app = new Hono()
  let runs = 0
  const count = () => {
    runs += 1
    return runs
  }
  build(app, { once: bench.once, count, protect: (options) => layer(bench.once, options) })
  await bench.listen(honoListener(app.fetch))
  return { ...bench, app, runs: () => runs }
}

export interface HonoParts {
  readonly once: Once<pg.PoolClient>
  count(): number
  protect(options?: LayerOptions): ReturnType<typeof layer>
}

/** One handler for `POST /orders` behind the layer. */
export function openHandler(database: TestDatabase, handler: (c: Context) => Response | Promise<Response>, options: LayerOptions = {}) {
  return openHono(database, (app, { protect, count }) => {
    app.use(protect(options))
    app.post('/orders', (c) => {
      count()
      return handler(c)
    })
  })
}
