import type { PoolClient } from 'pg'
import { expectTypeOf, test } from 'vitest'
import { idempotency, runOf, type Servable, serve } from '../../src/adapters/fetch.js'
import type { Once, OperationRun } from '../../src/index.js'

/** As Next.js has it. */
interface NextRequest extends Request {
  readonly nextUrl: { readonly pathname: string }
}
interface Route {
  readonly params: Promise<{ id: string }>
}

test('a protected handler is called with what the handler is called with', () => {
  expectTypeOf<ReturnType<typeof ofPlain>>().toEqualTypeOf<(request: Request) => Promise<Response>>()
  expectTypeOf<ReturnType<typeof ofNext>>().toEqualTypeOf<(request: NextRequest, route: Route) => Promise<Response>>()
  expectTypeOf<Parameters<ReturnType<typeof ofServed>>[0]>().toEqualTypeOf<NextRequest>()
  expectTypeOf(mounted).toBeFunction()
  expectTypeOf<ReturnType<typeof ofRun>>().toEqualTypeOf<OperationRun<PoolClient> | undefined>()
})

declare const once: Once<PoolClient>
declare const operation: Servable

const protect = () => idempotency(once, { tenant: (request) => request.headers.get('x-tenant') as string, afterFailure: 'rerun' })

const ofPlain = () => protect()(async (request) => new Response(request.body))
const ofNext = () =>
  protect()(async (request: NextRequest, { params }: Route) => Response.json([request.nextUrl.pathname, (await params).id]))
const ofServed = () => serve(operation, { tenant: (request: NextRequest) => request.nextUrl.pathname })
const ofRun = (request: Request) => runOf(once, request)

/** Compiled, and never called. */
function mounted() {
  // Options that need a framework's own request need a handler that gets one.
  const nextOnly = idempotency(once, { tenant: (request: NextRequest) => request.nextUrl.pathname, afterFailure: 'rerun' })
  expectTypeOf(nextOnly(async (request) => Response.json(request.nextUrl)))
    .parameter(0)
    .toEqualTypeOf<NextRequest>()
  // A plain Request is not what they are for.
  // @ts-expect-error
  nextOnly(async (request) => Response.json(request.url))(new Request('http://localhost'))

  // @ts-expect-error: a handler returns a Response.
  protect()(async () => 'text')
  // @ts-expect-error: there is no default for what becomes of a failure.
  idempotency(once, { tenant: 'single' })
  // @ts-expect-error: nor for whose key it is.
  idempotency(once, { afterFailure: 'rerun' })
  // @ts-expect-error: 'retry' is none of the choices.
  idempotency(once, { tenant: 'single', afterFailure: 'retry' })
  // @ts-expect-error: an operation knows what becomes of its failures.
  serve(operation, { tenant: 'single', afterFailure: 'rerun' })
  // @ts-expect-error: whose key it is has no default here either.
  serve(operation, {})
}
