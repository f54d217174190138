import 'reflect-metadata'
import type { AddressInfo } from 'node:net'
import { Body, Controller, Module, Post } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { ExpressAdapter } from '@nestjs/platform-express'
import { FastifyAdapter } from '@nestjs/platform-fastify'
import { idempotency } from 'oncekey/nest'
import { floorOf } from '../floors/floor.js'
import { nestFloor } from '../floors/nest.js'
import type { ServiceSettings } from '../start-service.js'
import { openOnce, options, orderOf } from '../store.js'

@Controller('orders')
class OrdersController {
  @Post()
  create(@Body() body: { item: string }) {
    return orderOf(body.item)
  }
}

@Module({ controllers: [OrdersController] })
class OrdersModule {}

export async function start(settings: ServiceSettings): Promise<number> {
  const platform = settings.framework === 'nest-fastify' ? new FastifyAdapter() : new ExpressAdapter()
  const app = await NestFactory.create(OrdersModule, platform, { logger: false, rawBody: settings.way !== 'bare' })
  if (settings.framework === 'nest-express') app.getHttpAdapter().getInstance().disable('etag')
  if (settings.way === 'oncekey') app.useGlobalInterceptors(idempotency(openOnce(settings), options))
  if (settings.way === 'floor') app.useGlobalInterceptors(nestFloor(floorOf(settings)))
  await app.listen(0, '127.0.0.1')
  return (app.getHttpServer().address() as AddressInfo).port
}
