// Services behind the packages that turn events of AWS Lambda into requests of a framework.
import { buffer } from 'node:stream/consumers'
import { configure as serverlessExpress } from '@codegenie/serverless-express'
import lambdaFastify from '@fastify/aws-lambda'
import express from 'express'
import Fastify from 'fastify'
import Koa from 'koa'
import serverless from 'serverless-http'
import { describe } from 'vitest'
import { idempotency as protectExpress } from '../../src/adapters/express.js'
import { idempotency as protectFastify } from '../../src/adapters/fastify.js'
import { idempotency as protectFetch } from '../../src/adapters/fetch.js'
import { idempotency as protectKoa } from '../../src/adapters/koa.js'
import type { Service } from '../adapters/service.js'
import { useDatabase } from '../support/postgres/database.js'
import { lambdaOf } from './fetch-lambda.js'
import { exerciseLambda, type StartFunction, type Work } from './lambda-cases.js'
import type { LambdaHandler } from './lambda-events.js'

const database = useDatabase()

function expressApp({ once }: Service, work: Work) {
  const app = express()
  app.use(protectExpress(once, { tenant: (request) => request.get('x-tenant') as string, afterFailure: 'rerun' }))
  app.use(express.raw({ type: () => true, limit: '10mb' }))
  app.post('/work', async (request, response) => {
    const { status, text } = await work(request.body)
    response.status(status).set('x-run', text).type('text/plain').send(text)
  })
  return app
}

function koaApp({ once }: Service, work: Work) {
  const app = new Koa()
  app.use(protectKoa(once, { tenant: (ctx) => ctx.get('x-tenant'), afterFailure: 'rerun' }))
  app.use(async (ctx) => {
    const { status, text } = await work(await buffer(ctx.req))
    ctx.status = status
    ctx.set('x-run', text)
    ctx.body = text
  })
  return app
}

function fastifyApp({ once }: Service, work: Work) {
  const app = Fastify({ bodyLimit: 10_000_000 })
  app.register(protectFastify(once, { tenant: (request) => request.headers['x-tenant'] as string, afterFailure: 'rerun' }))
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
  app.register(async (scope) => {
    scope.post('/work', async (request, reply) => {
      const { status, text } = await work(request.body as Buffer)
      return reply.code(status).header('x-run', text).type('text/plain').send(text)
    })
  })
  return app
}

const functions: [name: string, start: StartFunction][] = [
  ['serverless-http and Express', (service, work) => serverless(expressApp(service, work)) as LambdaHandler],
  ['serverless-http and Koa', (service, work) => serverless(koaApp(service, work)) as LambdaHandler],
  [
    '@codegenie/serverless-express and Express',
    (service, work) => serverlessExpress({ app: expressApp(service, work) }) as unknown as LambdaHandler,
  ],
  ['@fastify/aws-lambda and Fastify', (service, work) => lambdaFastify(fastifyApp(service, work)) as unknown as LambdaHandler],
]

describe.each(functions)('%s', (_, start) => {
  exerciseLambda(database, start)
})

describe('the recipe of docs/guide/serverless.md and oncekey/fetch', () => {
  const start: StartFunction = ({ once }, work) => {
    const protect = protectFetch(once, { tenant: (request) => request.headers.get('x-tenant') as string, afterFailure: 'rerun' })
    const handler = protect(async (request) => {
      const { status, text } = await work(new Uint8Array(await request.arrayBuffer()))
      return new Response(text, { status, headers: { 'x-run': text } })
    })
    return lambdaOf(handler) as unknown as LambdaHandler
  }
  exerciseLambda(database, start, ['API Gateway HTTP or function URL (2.0)'])
})
