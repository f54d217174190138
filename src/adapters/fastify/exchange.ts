import type { OutgoingHttpHeaders } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { HttpBody } from '../../http/request.js'
import { httpRequest, type NodeExchange } from '../node/exchange.js'

const bodies = new WeakMap<FastifyRequest, HttpBody>()

/** Fastify parses the body before any handler, and keeps no bytes. `payload` is what it is going to parse. */
export async function keepBody(request: FastifyRequest, reply: FastifyReply, payload: object, maxBytes: number): Promise<void> {
  // Somebody before us reads the request and hands on what they make of it: all that is left is what the parser makes of that.
  if (payload !== request.raw) return
  bodies.set(request, await httpRequest(exchangeOf(request, reply), maxBytes).body())
}

export function exchangeOf(request: FastifyRequest, reply: FastifyReply): NodeExchange<FastifyRequest> {
  return {
    native: request,
    request: request.raw,
    response: reply.raw,
    url: request.originalUrl,
    parser: request,
    body: bodies.get(request),
    // Fastify keeps its headers to itself until the end.
    baseline: reply.getHeaders() as OutgoingHttpHeaders,
  }
}
