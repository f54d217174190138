import type { IncomingHttpHeaders, IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { isOncekeyError, OncekeyError } from '../../core/errors.js'
import type { NodeExchange } from '../node/exchange.js'
import { ignoreLaterWrites } from '../node/late-writes.js'

/** What the requests of both platforms have: Express's is Node's own, Fastify's has it inside. */
export interface NestRequest {
  readonly method: string
  readonly url: string
  readonly originalUrl: string
  readonly headers: IncomingHttpHeaders
  readonly raw?: IncomingMessage
}

/** A response of Express, or a reply of Fastify. */
export type NestResponse = ServerResponse | FastifyReply

interface FastifyReply {
  readonly raw: ServerResponse
  getHeaders(): object
  send(payload?: unknown): unknown
}

export function exchangeOf<Request extends NestRequest>(request: Request, response: NestResponse): NodeExchange<Request> {
  const common = { native: request, url: request.originalUrl, parser: request }
  if (!isFastify(response)) return { ...common, request: request as unknown as IncomingMessage, response }
  return {
    ...common,
    request: request.raw as IncomingMessage,
    response: response.raw,
    // Fastify keeps its headers to itself until the end.
    baseline: response.getHeaders() as OutgoingHttpHeaders,
  }
}

/** Nest sends what it has at the end of a route in any case, and would be told that the answer is out. */
export function mute(response: NestResponse): void {
  if (isFastify(response)) response.send = () => response
  else ignoreLaterWrites(response)
}

const isFastify = (response: NestResponse): response is FastifyReply => 'raw' in response

/** What to do is another thing in Nest, which parses bodies before anything of ours. */
export function explain(error: unknown): never {
  return explainGone(error, ", or choose fingerprint: 'parsed' and read what that cannot tell apart")
}

/** The same where there is no other way: a signature is over bytes. */
export function explainUnsigned(error: unknown): never {
  return explainGone(error, '')
}

function explainGone(error: unknown, otherwise: string): never {
  if (!isOncekeyError(error, 'raw_body_gone')) throw error
  throw new OncekeyError(
    'raw_body_gone',
    'Nest parsed the request and threw its bytes away. Create the application with { rawBody: true }, as in ' +
      `NestFactory.create(AppModule, { rawBody: true })${otherwise}.`,
    { cause: error },
  )
}
