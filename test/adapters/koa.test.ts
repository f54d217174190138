import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { bodyParser } from '@koa/bodyparser'
import Koa from 'koa'
import { describe, test } from 'vitest'
import { idempotency, serve, status, webhook } from '../../src/adapters/koa.js'
import { type AdapterApp, exerciseAdapter } from '../../src/testing/index.js'
import { connectionTo } from '../support/postgres/connection.js'
import { useDatabase } from '../support/postgres/database.js'
import { postgresHarness } from '../support/postgres/harness.js'
import { listen } from './listen.js'

const database = useDatabase()
const tenant = (ctx: Koa.Context) => ctx.get('x-tenant')

type BodyOf = (ctx: Koa.Context) => Promise<Uint8Array> | Uint8Array

/** The kit's application, as a Koa user would write it. */
function appOf(kit: AdapterApp, parser: Koa.Middleware | undefined, bodyOf: BodyOf): Koa {
  const { once, options, handle, operation, acceptance, consumer, signatures } = kit
  const app = new Koa()
  app.silent = true
  const routes: Record<string, Koa.Middleware | undefined> = {
    'POST operation': operation && serve(operation, { tenant }),
    'POST async': operation && serve(operation, { tenant, ...acceptance }),
    'GET async': status(once, { tenant }),
    'HEAD async': status(once, { tenant }),
    'POST webhook': consumer && webhook(consumer, signatures),
  }
  app.use((ctx, next) => (routes[`${ctx.method} ${ctx.path.split('/')[1]}`] ?? ((_, pass) => pass()))(ctx, next))
  app.use(idempotency(once, { tenant, ...options }))
  if (parser) app.use(parser)
  app.use(async (ctx) => {
    const answer = await handle({ method: ctx.method, path: ctx.path, body: await bodyOf(ctx) })
    ctx.status = answer.status
    for (const [name, value] of answer.headers) ctx.append(name, value)
    if ('json' in answer.body) ctx.body = answer.body.json
    else if ('bytes' in answer.body) ctx.body = Buffer.from(answer.body.bytes)
    else if ('pieces' in answer.body) ctx.body = Readable.from(answer.body.pieces)
    else ctx.body = null
    ctx.status = answer.status
  })
  return app
}

/** What the parser kept, of the types that it knows. */
const parsed: BodyOf = async (ctx) => {
  const { rawBody } = ctx.request as { rawBody?: string }
  return rawBody === undefined ? buffer(ctx.req) : Buffer.from(rawBody)
}

describe.each<[string, Koa.Middleware | undefined, BodyOf]>([
  ['Koa 3, a handler that reads the request', undefined, (ctx) => buffer(ctx.req)],
  ['Koa 3, @koa/bodyparser behind', bodyParser({ enableTypes: ['json', 'form', 'text'], jsonStrict: false }), parsed],
])('%s', (_, parser, bodyOf) => {
  exerciseAdapter({
    test,
    setup: async () => ({
      ...(await postgresHarness(connectionTo(database.pool))),
      start: (app) => listen(appOf(app as AdapterApp, parser, bodyOf).callback()),
    }),
  })
})
