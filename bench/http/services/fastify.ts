import type { AddressInfo } from 'node:net'
import fastify from 'fastify'
import { idempotency } from 'oncekey/fastify'
import { fastifyFloor } from '../floors/fastify.js'
import { floorOf } from '../floors/floor.js'
import type { ServiceSettings } from '../start-service.js'
import { openOnce, options, orderOf } from '../store.js'

export async function start(settings: ServiceSettings): Promise<number> {
  const app = fastify()
  if (settings.way === 'floor') fastifyFloor(app, floorOf(settings))
  if (settings.way.startsWith('oncekey')) await app.register(idempotency(openOnce(settings), options))
  if (settings.way === '@node-idempotency/core') await (await import('../peers.js')).nodeIdempotency(app, settings)
  app.post('/orders', async (request, reply) => reply.code(201).send(orderOf((request.body as { item: string }).item)))
  await app.listen({ port: 0, host: '127.0.0.1' })
  return (app.server.address() as AddressInfo).port
}
