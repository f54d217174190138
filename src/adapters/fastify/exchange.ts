import type { OutgoingHttpHeaders } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { BodyReading, HttpBody, HttpRequest } from '../../http/request.js'
import type { NodeExchange } from '../node/exchange.js'
import { httpRequest } from '../node/http-request.js'

/** A property of the request itself, for the same reason as in `run-of.ts`. */
const keptBody = Symbol('oncekey.body')

interface Kept {
  [keptBody]?: HttpBody
}

/** Before the body is parsed. Registered twice, the first one has read it. */
export function incomingOf(request: FastifyRequest, reading: BodyReading): HttpRequest<FastifyRequest> {
  const { raw, originalUrl } = request
  return httpRequest({ native: request, request: raw, url: originalUrl, parser: request, body: (request as Kept)[keptBody] }, reading)
}

/** Fastify parses the body before any handler, and keeps no bytes. `payload` is what it is going to parse. */
export function keepBody(request: FastifyRequest, payload: object, reading: BodyReading): Promise<void> {
  // Somebody before us reads the request and hands on what they make of it: all that is left is what the parser makes of that.
  if (payload !== request.raw) return Promise.resolve()
  return incomingOf(request, reading)
    .body()
    .then((body) => {
      ;(request as Kept)[keptBody] = body
    })
}

export function exchangeOf(request: FastifyRequest, reply: FastifyReply): NodeExchange<FastifyRequest> {
  return {
    native: request,
    request: request.raw,
    response: reply.raw,
    url: request.originalUrl,
    parser: request,
    body: (request as Kept)[keptBody],
    // Fastify keeps its headers to itself until the end.
    baseline: reply.getHeaders() as OutgoingHttpHeaders,
  }
}
