import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { FastifyReply, FastifyRequest, RequestPayload } from 'fastify'
import { isJson } from '../../core/media-type.js'
import type { BodyReading, HttpBody, HttpRequest } from '../../http/request.js'
import { errorOf, type NodeExchange } from '../node/exchange.js'
import { HeldClient } from '../node/held-client.js'
import { httpRequest, type KeptBody } from '../node/http-request.js'
import { hasBody } from '../node/http-versions.js'
import { TappedBody } from '../node/tapped-body.js'

/** A property of the request itself, for the same reason as in `run-of.ts`. */
const keptBody = Symbol('oncekey.body')

interface Kept {
  [keptBody]?: KeptBody
}

/** Before the body is parsed. */
export function incomingOf(request: FastifyRequest, reading: BodyReading): HttpRequest<FastifyRequest> {
  const { raw, originalUrl } = request
  return httpRequest({ native: request, request: raw, url: originalUrl, parser: request }, reading)
}

/**
 * Fastify parses the body before any handler, and keeps no bytes. `payload` is what it is going to parse. Its parser of JSON reads to the end
 * before anything else happens, so the bytes are kept while it does; other parsers may leave the reading to the handler, and wait for us.
 */
export function keepBody(
  request: FastifyRequest,
  payload: RequestPayload,
  reading: BodyReading,
  done: (error: Error | null, payload?: RequestPayload) => void,
  response?: ServerResponse,
): void {
  const kept = request as Kept
  // A hook before us reads the request and hands on what it makes of it: all that is left is what the parser makes of that. Or we are
  // registered twice, and the first one keeps it.
  if (payload !== request.raw || kept[keptBody]) {
    done(null, payload)
    return
  }
  const tap = isJson(request.headers['content-type'] ?? '') ? TappedBody.of(request.raw, reading.maxBodyBytes) : undefined
  if (tap) {
    kept[keptBody] = tap
    done(null, payload)
    return
  }
  const body = incomingOf(request, reading).body()
  const keep = (read: HttpBody) => {
    const client = response && 'bytes' in read && hasBody(request.raw) ? new HeldClient(request.raw, response) : undefined
    client?.holdRequest()
    kept[keptBody] = { body: () => read, client }
    done(null, payload)
  }
  if ('then' in body) body.then(keep, (error) => done(errorOf(error)))
  else keep(body)
}

export function exchangeOf(request: FastifyRequest, reply: FastifyReply): NodeExchange<FastifyRequest> {
  return {
    native: request,
    request: request.raw,
    response: reply.raw,
    url: request.originalUrl,
    parser: request,
    kept: (request as Kept)[keptBody],
    // Fastify keeps its headers to itself until the end.
    baseline: reply.getHeaders() as OutgoingHttpHeaders,
  }
}
