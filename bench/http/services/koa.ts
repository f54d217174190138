import { bodyParser } from '@koa/bodyparser'
import Koa from 'koa'
import { idempotency } from 'oncekey/koa'
import { floorOf } from '../floors/floor.js'
import { koaFloor } from '../floors/koa.js'
import { listening } from '../listening.js'
import type { ServiceSettings } from '../start-service.js'
import { openOnce, options, orderOf } from '../store.js'

export async function start(settings: ServiceSettings): Promise<number> {
  const app = new Koa()
  if (settings.way === 'oncekey') app.use(idempotency(openOnce(settings), options))
  app.use(bodyParser())
  if (settings.way === 'floor') app.use(koaFloor(floorOf(settings)))
  app.use((ctx) => {
    ctx.status = 201
    ctx.body = orderOf((ctx.request.body as { item: string }).item)
  })
  return listening(app.callback())
}
