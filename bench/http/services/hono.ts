import { getRequestListener } from '@hono/node-server'
import { Hono } from 'hono'
import { idempotency } from 'oncekey/hono'
import { honoFloor } from '../floors/fetch.js'
import { floorOf } from '../floors/floor.js'
import { listening } from '../listening.js'
import type { ServiceSettings } from '../start-service.js'
import { openOnce, options, orderOf } from '../store.js'

export function start(settings: ServiceSettings): Promise<number> {
  const app = new Hono()
  if (settings.way === 'oncekey') app.use(idempotency(openOnce(settings), options))
  if (settings.way === 'floor') app.use(honoFloor(floorOf(settings)))
  app.post('/orders', async (c) => c.json(orderOf((await c.req.json()).item), 201))
  return listening(getRequestListener(app.fetch))
}
