// Orders on NestJS and Kysely: each is made and charged once, whatever retries, races and crashes come.
import 'reflect-metadata'
import { Body, Controller, Get, Module, type OnApplicationShutdown, type OnModuleInit, Post, Req, Res } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import type { Request, Response } from 'express'
import { IdempotencyModule, Idempotent, serve } from 'oncekey/nest'
import { workers } from 'oncekey/workers'
import { createOrder, db, once } from './orders.js'

@Controller('orders')
class OrdersController {
  private readonly postOrder = serve(createOrder, { tenant: 'single' })

  /** The operation answers by itself, so the interceptor below leaves this route alone. */
  @Post()
  @Idempotent(false)
  async create(@Req() request: Request, @Res() response: Response) {
    await this.postOrder(request, response)
  }

  @Get()
  list() {
    return db.selectFrom('orders').selectAll().execute()
  }
}

/** A handler that stays as it is. The interceptor protects it. */
@Controller('gift-cards')
class GiftCardsController {
  @Post()
  @Idempotent({ required: true })
  create(@Body() { cents }: { cents: number }) {
    return db.insertInto('gift_cards').values({ cents }).returningAll().executeTakeFirstOrThrow()
  }
}

@Module({
  // 'park': after a crash in a handler nobody knows what it has done, so a person has a look. An operation would resume.
  imports: [IdempotencyModule.forRoot(once, { tenant: 'single', afterFailure: 'park' })],
  controllers: [OrdersController, GiftCardsController],
})
class AppModule implements OnModuleInit, OnApplicationShutdown {
  private readonly background = workers(once)

  /** Finishes orders whose clients never come back. */
  onModuleInit() {
    this.background.start()
  }

  /** What is under way is finished here, or given back to another process. */
  async onApplicationShutdown() {
    await Promise.all([this.background.stop(), once.stop({ within: '20s' })])
    await db.destroy()
  }
}

// The layer compares bodies by their bytes, so Nest must keep them.
const app = await NestFactory.create(AppModule, { rawBody: true, logger: ['warn', 'error'] })
app.enableShutdownHooks()
const port = Number(process.env.PORT ?? 3000)
await app.listen(port)
console.log(`Ready on http://localhost:${port}`)
