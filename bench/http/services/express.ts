import express, { type Request } from 'express'
import { idempotency } from 'oncekey/express'
import { floorOf } from '../floors/floor.js'
import { nodeFloor } from '../floors/node.js'
import { listening } from '../listening.js'
import type { ServiceSettings } from '../start-service.js'
import { openOnce, options, orderOf } from '../store.js'

export async function start(settings: ServiceSettings): Promise<number> {
  const app = express()
  app.disable('etag')
  if (settings.way === 'oncekey') app.use(idempotency(openOnce(settings), options))
  if (settings.way === 'floor') {
    const floor = floorOf(settings)
    const bodies = new WeakMap<object, Buffer>()
    app.use(express.json({ verify: (request, _response, bytes) => void bodies.set(request, bytes) }))
    app.use((request, response, next) => {
      nodeFloor(floor, request, response, bodies.get(request) as Buffer, next).catch(next)
    })
  } else {
    app.use(express.json())
  }
  let isAnswered: (request: Request) => boolean = () => false
  if (settings.way === 'express-idempotency') {
    const { guard, isHit } = await (await import('../peers.js')).expressIdempotency(settings)
    app.use(guard)
    isAnswered = isHit
  }
  app.post('/orders', (request, response) => {
    if (!isAnswered(request)) response.status(201).json(orderOf(request.body.item))
  })
  return listening(app)
}
