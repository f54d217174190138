import { Readable } from 'node:stream'
import { All, Controller, Get, type INestApplication, Post, Req, Res, StreamableFile } from '@nestjs/common'
import type { NestExpressApplication } from '@nestjs/platform-express'
import type { NestFastifyApplication } from '@nestjs/platform-fastify'
import { describe, test } from 'vitest'
import { IdempotencyModule, Idempotent, type NestRequest, type NestResponse, serve, status, webhook } from '../../src/adapters/nest.js'
import { type AdapterApp, exerciseAdapter } from '../../src/testing/index.js'
import { connectionTo } from '../support/postgres/connection.js'
import { useDatabase } from '../support/postgres/database.js'
import { postgresHarness } from '../support/postgres/harness.js'
import { type AnyResponse, decorated, type NestSetup, type Platform, platforms, startNest, tenant } from './nest-app.js'

const database = useDatabase()

interface AnyRequest extends NestRequest {
  readonly rawBody?: Buffer
}

/** The kit's application, as a Nest user would write it. */
function setupOf({ once, options, handle, operation, acceptance, consumer, signatures }: AdapterApp): NestSetup {
  class WorkController {
    async work(request: AnyRequest, response: AnyResponse) {
      const { status, headers, body } = await handle({ method: request.method, path: request.url, body: request.rawBody ?? Buffer.of() })
      response.status(status)
      for (const name of new Set(headers.map(([name]) => name))) {
        const lines = headers.filter(([each]) => each === name).map(([, value]) => value)
        response.header(name, lines.length === 1 ? (lines[0] as string) : lines)
      }
      if ('json' in body) {
        // Fastify sends objects as JSON only.
        response.header('content-type', 'application/json')
        return body.json
      }
      if ('bytes' in body) return new StreamableFile(body.bytes)
      if ('pieces' in body) return new StreamableFile(Readable.from(body.pieces))
    }
  }
  decorated(WorkController, {
    on: [Controller()],
    methods: { work: [All(':page')] },
    parameters: { work: [Req(), Res({ passthrough: true })] },
  })

  class OperationController {
    readonly answer = operation && serve(operation, { tenant })
    async create(request: NestRequest, response: NestResponse) {
      await this.answer?.(request, response)
    }
  }
  decorated(OperationController, {
    on: [Controller('operation')],
    methods: { create: [Post(), Idempotent(false)] },
    parameters: { create: [Req(), Res()] },
  })

  class AsyncController {
    readonly answer = operation && serve(operation, { tenant, ...acceptance })
    readonly status = status(once, { tenant })
    async create(request: NestRequest, response: NestResponse) {
      await this.answer?.(request, response)
    }
    async read(request: NestRequest, response: NestResponse) {
      await this.status(request, response)
    }
  }
  decorated(AsyncController, {
    on: [Controller('async')],
    methods: { create: [Post(), Idempotent(false)], read: [Get(':id')] },
    parameters: { create: [Req(), Res()], read: [Req(), Res()] },
  })

  class WebhookController {
    readonly answer = consumer && webhook(consumer, signatures)
    async receive(request: NestRequest, response: NestResponse) {
      await this.answer?.(request, response)
    }
  }
  decorated(WebhookController, {
    on: [Controller('webhook')],
    methods: { receive: [Post(), Idempotent(false)] },
    parameters: { receive: [Req(), Res()] },
  })

  return {
    imports: [IdempotencyModule.forRoot(once, { tenant, ...options })],
    controllers: [OperationController, AsyncController, WebhookController, WorkController],
  }
}

function parseEverything(platform: Platform, app: INestApplication): void {
  if (platform === 'Express') (app as NestExpressApplication).useBodyParser('raw', { type: () => true, limit: '10mb' })
  else (app as NestFastifyApplication).useBodyParser(['application/octet-stream', 'text/plain'], { bodyLimit: 10_000_000 })
}

describe.each(platforms)('Nest on %s', (platform) => {
  exerciseAdapter({
    test,
    setup: async () => ({
      ...(await postgresHarness(connectionTo(database.pool))),
      start: (app) => startNest(platform, { ...setupOf(app as AdapterApp), main: (nest) => parseEverything(platform, nest) }),
    }),
  })
})
