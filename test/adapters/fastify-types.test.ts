import fastify, { type FastifyBaseLogger, type FastifyRequest, type FastifyTypeProvider } from 'fastify'
import { expectTypeOf, test } from 'vitest'
import { type IdempotencyOptions, idempotency, runOf, serve } from '../../src/adapters/fastify.js'
import type { Once, Operation, OperationRun } from '../../src/index.js'

declare const once: Once<'tx'>
declare const operation: Operation<unknown, never>
declare const logger: FastifyBaseLogger

interface OtherTypes extends FastifyTypeProvider {
  readonly validator: this['schema']
}

test("knows the framework's request, and insists on what has no default", () => {
  expectTypeOf<Parameters<typeof idempotency>[1]>().toEqualTypeOf<IdempotencyOptions<FastifyRequest>>()
  expectTypeOf(written).toBeFunction()
  expectTypeOf<ReturnType<typeof run>>().toEqualTypeOf<OperationRun<'tx'> | undefined>()
})

const run = (request: FastifyRequest) => runOf(once, request)

// Compiled, and never called.
function written() {
  idempotency(once, { tenant: ({ ip, headers }) => headers.authorization ?? ip, afterFailure: 'park', key: (request) => request.id })
  idempotency(once, { tenant: 'single', afterFailure: 'rerun' })
  // @ts-expect-error whose key it is must be said
  idempotency(once, { afterFailure: 'rerun' })
  // @ts-expect-error what becomes of a failure must be said
  idempotency(once, { tenant: 'single' })
  // @ts-expect-error a request of Fastify has no such thing
  idempotency(once, { tenant: (request) => request.nothing, afterFailure: 'rerun' })
  // @ts-expect-error nor is there such a choice
  idempotency(once, { tenant: 'single', afterFailure: 'ignore' })
  // @ts-expect-error whose key it is must be said here, too
  serve(operation, {})

  const app = fastify()
  app.post('/', { config: { idempotency: { afterFailure: 'park', tenant: (request) => request.ip } } }, async () => 'ok')
  app.post('/', { config: { idempotency: false } }, async () => 'ok')
  // @ts-expect-error there is no such choice
  app.post('/', { config: { idempotency: { afterFailure: 'ignore' } } }, async () => 'ok')
  // @ts-expect-error a request of Fastify has no such thing
  app.post('/', { config: { idempotency: { tenant: (request) => request.nothing } } }, async () => 'ok')
  app.post('/', serve(operation, { tenant: ({ ip }) => ip }))
  app.post('/', { schema: { body: {} }, ...serve(operation, { tenant: 'single', input: ({ params }, body) => ({ params, body }) }) })
  app.route({ method: 'POST', url: '/', ...serve(operation, { tenant: 'single' }) })

  const plugin = idempotency(once, { tenant: 'single', afterFailure: 'rerun' })
  app.register(plugin)
  fastify({ http2: true }).register(plugin)
  fastify({ https: {} }).register(plugin)
  fastify({ loggerInstance: logger }).register(plugin)
  fastify().withTypeProvider<OtherTypes>().register(plugin)
}
