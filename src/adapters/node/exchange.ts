import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { type Answer, reply } from '../../core/answer.js'
import type { Handled, Idempotency } from '../../http/idempotency.js'
import type { HttpBody, HttpRequest } from '../../http/request.js'
import { rememberRun } from '../../http/run-of.js'
import type { Service } from '../../http/serve.js'
import { holdRequest } from './held-request.js'
import { type HeldResponse, holdResponse } from './held-response.js'
import { holdSocket } from './held-socket.js'
import { breakOff, isGone } from './http-versions.js'
import { ignoreLaterWrites } from './ignored-writes.js'
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

/** What is to be done with a request before anything of its answer is sent. */
export type Begun =
  /** It is not protected. */
  | { readonly kind: 'pass' }
  /** The handler must not run; this is the answer. */
  | { readonly kind: 'answer'; readonly answer: Answer }
  /** The handler may run. Its answer is caught, and `outcome` says what to do with it, once it is stored. */
  | { readonly kind: 'run'; readonly held: HeldResponse; readonly outcome: Promise<Outcome> }

type Outcome = Exclude<Handled, { kind: 'pass' }>

/**
 * The way of a request to its handler. `'pass'`: it is not protected. `'run'`: the handler may run; its answer is caught, stored, and
 * sent after that. `'answered'`: the client has its answer, and the handler must not run.
 */
export async function enter<Native, Tx>(
  layer: Idempotency<Native, Tx>,
  exchange: NodeExchange<Native>,
): Promise<'pass' | 'run' | 'answered'> {
  const begun = await begin(layer, exchange)
  if (begun.kind === 'pass') return 'pass'
  if (begun.kind === 'answer') {
    await send(exchange, begun.answer)
    return 'answered'
  }
  const { held, outcome } = begun
  outcome.then((decided) => conclude(exchange.response, held, decided))
  return 'run'
}

const protectedRequests = new WeakSet<IncomingMessage>()

export function begin<Native, Tx>(layer: Idempotency<Native, Tx>, exchange: NodeExchange<Native>): Promise<Begun> {
  const { native, request, response, baseline = response.getHeaders() } = exchange
  // Mounted twice: the outer one protects it already.
  if (protectedRequests.has(request)) return Promise.resolve({ kind: 'pass' })
  // Not every server has one: some run functions.
  const socket = holdSocket(request.socket ?? {}, (error) => response.destroy(error))
  // Somebody in front of us listens to it, and would have it all before the handler begins to.
  const { readableFlowing } = request
  if (readableFlowing) request.pause()
  let letGo: (() => void) | undefined
  const hold = () => {
    letGo ??= holdRequest(request, response, socket)
  }
  const incoming = httpRequest(exchange, layer.maxBodyBytes)
  let reading: Promise<HttpBody> | undefined
  const body = async () => {
    reading ??= incoming.body()
    const read = await reading
    // From here on the request is whole, and nothing that happens to its client may take it away from the handler.
    if ('bytes' in read) hold()
    return read
  }

  return new Promise((resolve, reject) => {
    let held: HeldResponse | undefined
    const handled = layer
      .handle({ ...incoming, body }, (run) => {
        protectedRequests.add(request)
        hold()
        // Somebody in front of us was tired of waiting for the key, and has answered: their status is not the handler's.
        if (response.writableEnded) response.statusCode = 200
        held = holdResponse(response, { baseline, maxBytes: layer.maxAnswerBytes, socket })
        rememberRun(request, run)
        if (typeof native === 'object' && native !== null) rememberRun(native, run)
        if (readableFlowing) request.resume()
        resolve({ kind: 'run', held, outcome })
        return held.answer
      })
      .finally(() => {
        letGo?.()
        if (!held) socket.letGo()
      })
    // Once the handler has begun, its framework has had its turn: there is nobody left to tell but the client.
    const outcome: Promise<Outcome> = handled.then(
      (decided) => decided as Outcome,
      () => ({ kind: 'answer', answer: reply(500) }),
    )
    handled
      .finally(() => {
        if (readableFlowing) request.resume()
      })
      .then((decided) => {
        // What nobody is going to read stands in the way of the next request.
        if (!held && decided.kind === 'answer') request.resume()
        if (decided.kind !== 'own') resolve(decided)
      })
      .catch(reject)
  })
}

/** Sends what was decided. Whatever middleware in front of us throws at that, there is nobody to catch it. */
export function conclude(response: ServerResponse, held: HeldResponse, decided: Outcome): void {
  try {
    if (decided.kind === 'own') held.release(decided.headers)
    else held.replaceBy(decided.answer)
  } catch (error) {
    breakOff(response)
    process.emitWarning(`An answer could not be sent: ${String(error)}`, { code: 'ONCEKEY_NOT_SENT' })
  }
}

/** Resolves when the answer has left, or has nowhere to go: only then does a framework get its turn again, and finds it done. */
function send({ response, baseline }: NodeExchange<unknown>, answer: Answer): Promise<void> {
  return new Promise((resolve) => {
    if (isGone(response)) return resolve()
    response.once('finish', resolve).once('close', resolve)
    sendAnswer(response, answer, baseline)
    ignoreLaterWrites(response)
  })
}

/** Runs the operation and sends its answer. What the operation's body throws comes out of here, with nothing sent. */
export async function respond<Native>(service: Service<Native>, exchange: NodeExchange<Native>): Promise<void> {
  await send(exchange, await answerOf(service, exchange))
}

/** The same, without sending it. */
export function answerOf<Native>(service: Service<Native>, exchange: NodeExchange<Native>): Promise<Answer> {
  return service.answer(httpRequest(exchange, service.maxBodyBytes))
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
function linesOf(request: IncomingMessage, name: string): string[] {
  const { rawHeaders } = request
  return rawHeaders.filter((_, index) => index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === name)
}

function splitOnce(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator)
  return at === -1 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
}
