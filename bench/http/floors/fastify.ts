import type { FastifyInstance } from 'fastify'
import type { Lease } from 'oncekey'
import { type Floor, headerPairs, replayedHeader } from './floor.js'

declare module 'fastify' {
  interface FastifyRequest {
    floorPieces: Buffer[]
    floorLease: Lease | null
  }
}

/** `preParsing` for the bytes as they arrive, `preHandler` for the claim, `onSend` for the finish. */
export function fastifyFloor(app: FastifyInstance, { claim, finish }: Floor): void {
  app.decorateRequest('floorPieces')
  app.decorateRequest('floorLease', null)
  app.addHook('preParsing', (request, _reply, payload, done) => {
    const pieces: Buffer[] = []
    request.floorPieces = pieces
    payload.on('data', (piece: Buffer) => pieces.push(piece))
    done(null, payload)
  })
  app.addHook('preHandler', (request, reply, done) => {
    const { headers, url, floorPieces } = request
    const key = headers['idempotency-key'] as string
    claim({ key, path: url, mediaType: headers['content-type'] as string, body: Buffer.concat(floorPieces) }).then(({ answer, lease }) => {
      if (answer) {
        reply.code(answer.status).header(...replayedHeader)
        for (const [name, value] of answer.headers) reply.header(name, value)
        reply.send(Buffer.from(answer.body))
        return
      }
      request.floorLease = lease
      done()
    }, done)
  })
  app.addHook('onSend', (request, reply, payload, done) => {
    const { floorLease } = request
    if (!floorLease) return done(null, payload)
    finish(floorLease, { status: reply.statusCode, headers: headerPairs(reply.getHeaders()), body: Buffer.from(payload as string) }).then(
      () => done(null, payload),
      done,
    )
  })
}
