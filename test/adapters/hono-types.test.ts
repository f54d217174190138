import { type Context, Hono, type MiddlewareHandler } from 'hono'
import type { PoolClient } from 'pg'
import { expectTypeOf, test } from 'vitest'
import { idempotency, runOf, type Servable, serve } from '../../src/adapters/hono.js'
import type { Once, OperationRun } from '../../src/index.js'

type Typed = { Variables: { userId: string; attempts: number } }

test('the options know the context, with the variables of an application that has some', () => {
  expectTypeOf<ReturnType<typeof ofTyped>>().toEqualTypeOf<MiddlewareHandler<Typed>>()
  expectTypeOf<ReturnType<typeof ofAny>>().toEqualTypeOf<MiddlewareHandler>()
  expectTypeOf(mounted).toBeFunction()
  expectTypeOf<ReturnType<typeof ofRun>>().toEqualTypeOf<OperationRun<PoolClient> | undefined>()
})

declare const once: Once<PoolClient>
declare const operation: Servable

const ofTyped = () => idempotency(once, { tenant: (c: Context<Typed>) => c.get('userId'), afterFailure: 'rerun' })
const ofAny = () => idempotency(once, { tenant: (c) => c.get('userId'), afterFailure: 'rerun' })
const ofRun = (c: Context) => runOf(once, c)

/** Compiled, and never called. */
function mounted() {
  const app = new Hono<Typed>()
  // Without an annotation Hono's `c.get()` takes any name.
  app.use(idempotency(once, { tenant: (c) => c.get('userId'), afterFailure: 'rerun' }))
  app.use('/orders/*', ofTyped())
  app.post('/orders', idempotency(once, { tenant: (c) => c.req.header('x-tenant') as string, afterFailure: 'park' }), (c) => {
    expectTypeOf(c.get('userId')).toEqualTypeOf<string>()
    return c.text(c.get('userId'))
  })
  app.post('/served', serve(operation, { tenant: (c) => c.get('userId') }))
  app.post('/typed', serve(operation, { tenant: (c: Context<Typed>) => c.get('userId'), input: (c, body) => [c.get('attempts'), body] }))
  app.route('/', new Hono().use(idempotency(once, { tenant: async () => 'anyone', afterFailure: 'store' })))

  // With an annotation the names and their types are checked.
  // @ts-expect-error: a number is no tenant.
  idempotency(once, { tenant: (c: Context<Typed>) => c.get('attempts'), afterFailure: 'rerun' })
  // @ts-expect-error: there is no such variable.
  idempotency(once, { tenant: (c: Context<Typed>) => c.get('nobody') as string, afterFailure: 'rerun' })

  // @ts-expect-error: there is no default for what becomes of a failure.
  idempotency(once, { tenant: 'single' })
  // @ts-expect-error: nor for whose key it is.
  idempotency(once, { afterFailure: 'rerun' })
  // @ts-expect-error: 'retry' is none of the choices.
  idempotency(once, { tenant: 'single', afterFailure: 'retry' })
  // @ts-expect-error: a name is no tenant function.
  idempotency(once, { tenant: 'acme', afterFailure: 'rerun' })
  // @ts-expect-error: an operation knows what becomes of its failures.
  serve(operation, { tenant: 'single', afterFailure: 'rerun' })
  // @ts-expect-error: whose key it is has no default here either.
  serve(operation, {})
}
