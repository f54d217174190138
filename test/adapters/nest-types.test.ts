import type { DynamicModule, NestInterceptor } from '@nestjs/common'
import type { Request, Response } from 'express'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { expectTypeOf, test } from 'vitest'
import { IdempotencyModule, type IdempotencyOptions, Idempotent, idempotency, type NestRequest, serve } from '../../src/adapters/nest.js'
import type { Once, Operation } from '../../src/index.js'

declare const once: Once<'tx'>
declare const operation: Operation<unknown, never>

interface SignedIn {
  readonly user: { readonly id: string }
}

test('is what Nest takes, and knows what the requests of both platforms have', () => {
  expectTypeOf(written).toBeFunction()
  expectTypeOf<ReturnType<typeof idempotency>>().toEqualTypeOf<NestInterceptor>()
  expectTypeOf<ReturnType<typeof IdempotencyModule.forRoot>>().toEqualTypeOf<DynamicModule>()
  expectTypeOf<Parameters<typeof idempotency>[1]>().toEqualTypeOf<IdempotencyOptions<NestRequest>>()
  expectTypeOf<Request>().toExtend<NestRequest>()
  expectTypeOf<FastifyRequest>().toExtend<NestRequest>()
})

// Compiled, and never called.
function written(express: [Request, Response], fastify: [FastifyRequest, FastifyReply]) {
  idempotency(once, { tenant: ({ headers }) => String(headers.authorization), afterFailure: 'park' })
  idempotency(once, { tenant: (request: Request & SignedIn) => request.user.id, afterFailure: 'park' })
  idempotency(once, { tenant: (request: FastifyRequest & SignedIn) => request.user.id, afterFailure: 'park' })
  IdempotencyModule.forRoot(once, {
    tenant: (request: Request & SignedIn) => request.user.id,
    afterFailure: 'park',
    key: (request) => request.ip,
  })
  // @ts-expect-error whose key it is must be said
  idempotency(once, { afterFailure: 'rerun' })
  // @ts-expect-error what becomes of a failure must be said
  idempotency(once, { tenant: 'single' })
  // @ts-expect-error what becomes of a failure must be said here, too
  IdempotencyModule.forRoot(once, { tenant: 'single' })
  // @ts-expect-error not every platform's request has that
  idempotency(once, { tenant: (request) => request.ip, afterFailure: 'rerun' })
  // @ts-expect-error that is no request
  idempotency(once, { tenant: (request: number) => String(request), afterFailure: 'rerun' })

  Idempotent()
  Idempotent(false)
  Idempotent({ afterFailure: 'park' })
  Idempotent({ tenant: (request: Request) => request.hostname })
  // @ts-expect-error not an option
  Idempotent({ afterwards: 'park' })
  // @ts-expect-error not protected is false
  Idempotent(true)

  const answer = serve(operation, { tenant: ({ headers }) => String(headers.authorization) })
  answer(...express)
  answer(...fastify)
  serve(operation, { tenant: (request: Request) => request.hostname })(...express)
  // @ts-expect-error whose key it is must be said
  serve(operation, {})
}
