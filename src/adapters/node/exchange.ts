import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { reply } from '../../core/answer.js'
import type { Idempotency } from '../../http/idempotency.js'
import type { HttpBody, HttpRequest } from '../../http/request.js'
import { rememberRun } from '../../http/run-of.js'
import type { Service } from '../../http/serve.js'
import { holdRequest } from './held-request.js'
import { type HeldResponse, holdResponse, ignoreLaterWrites } from './held-response.js'
import { readBody } from './request-body.js'
import { sendAnswer } from './response-headers.js'

/** A request and its response, below the framework. */
export interface NodeExchange<Native> {
  readonly native: Native
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** As the client sent it, where a router has changed it. */
  readonly url?: string
  /** What has a `body` or `rawBody` that a parser left. Default: the request. */
  readonly parser?: object
  /** The body, where it had to be read before this. */
  readonly body?: HttpBody | undefined
  /** The headers that the framework is going to send in any case. Default: those of the response. */
  readonly baseline?: OutgoingHttpHeaders
}

/**
 * The way of a request to its handler. `'pass'`: it is not protected. `'run'`: the handler may run; its answer is caught, stored, and
 * sent after that. `'answered'`: the client has its answer, and the handler must not run.
 */
export function enter<Native, Tx>(layer: Idempotency<Native, Tx>, exchange: NodeExchange<Native>): Promise<'pass' | 'run' | 'answered'> {
  const { native, request, response, baseline = response.getHeaders() } = exchange
  // Mounted twice: the outer one protects it already.
  if (protectedRequests.has(request)) return Promise.resolve('pass')
  protectedRequests.add(request)
  let held: HeldResponse | undefined
  let letGo: (() => void) | undefined
  const incoming = httpRequest(exchange, layer.maxBodyBytes)
  const body = async () => {
    const read = await incoming.body()
    // From here on the request is whole, and nothing that happens to its client may take it away from the handler.
    if ('bytes' in read) letGo = holdRequest(request)
    return read
  }

  return new Promise((resolve, reject) => {
    layer
      .handle({ ...incoming, body }, (run) => {
        held = holdResponse(response, { baseline: { ...baseline }, maxBytes: layer.maxAnswerBytes })
        rememberRun(request, run)
        if (typeof native === 'object' && native !== null) rememberRun(native, run)
        resolve('run')
        return held.answer
      })
      .finally(() => letGo?.())
      .then(async (handled) => {
        if (handled.kind === 'pass') return resolve('pass')
        if (handled.kind === 'own') return held?.release(handled.headers)
        if (held) return held.replaceBy(handled.answer)
        await sent(response, () => sendAnswer(response, handled.answer, exchange.baseline))
        resolve('answered')
      })
      .catch((error: unknown) => {
        // Once the handler has begun, its framework has had its turn: there is nobody left to tell but the client.
        held?.replaceBy(reply(500))
        reject(error)
      })
  })
}

/** Resolves when the answer has left, or has nowhere to go: only then does a framework get its turn again, and finds it done. */
function sent(response: ServerResponse, send: () => void): Promise<void> {
  return new Promise((resolve) => {
    if (response.destroyed) return resolve()
    response.once('finish', resolve).once('close', resolve)
    send()
    ignoreLaterWrites(response)
  })
}

const protectedRequests = new WeakSet<IncomingMessage>()

/** Runs the operation and sends its answer. What the operation's body throws comes out of here, with nothing sent. */
export async function respond<Native>(service: Service<Native>, exchange: NodeExchange<Native>): Promise<void> {
  const { response, baseline } = exchange
  const answer = await service.answer(httpRequest(exchange, service.maxBodyBytes))
  await sent(response, () => sendAnswer(response, answer, baseline))
}

export function httpRequest<Native>(
  { native, request, url = request.url ?? '/', parser, body }: NodeExchange<Native>,
  maxBodyBytes: number,
): HttpRequest<Native> {
  const [path, query] = splitOnce(url, '?')
  return {
    native,
    method: request.method ?? 'GET',
    path,
    query,
    headerLines: (name) => linesOf(request, name.toLowerCase()),
    body: async () => body ?? readBody(request, maxBodyBytes, parser),
  }
}

/** From the raw list, because Node joins two lines of most headers into one. */
function linesOf({ rawHeaders }: IncomingMessage, name: string): string[] {
  return rawHeaders.filter((_, index) => index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === name)
}

function splitOnce(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator)
  return at === -1 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
}
