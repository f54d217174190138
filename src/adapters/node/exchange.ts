import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { type Answer, reply } from '../../core/answer.js'
import type { Handled, Handler, Idempotency } from '../../http/idempotency.js'
import { hasRun, rememberAttempt } from '../../http/run-of.js'
import type { Service } from '../../http/serve.js'
import { type HeldRequest, holdRequest } from './held-request.js'
import { type HeldResponse, holdResponse } from './held-response.js'
import { type HeldSocket, holdSocket } from './held-socket.js'
import { httpRequest, type NodeRequest } from './http-request.js'
import { breakOff, isGone } from './http-versions.js'
import { giveOneShape, sharesNoShape } from './one-shape.js'
import { sendAnswer } from './response-headers.js'

/** A request and its response, below the framework. */
export interface NodeExchange<Native> extends NodeRequest<Native> {
  readonly response: ServerResponse
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
  concludeLater(exchange, begun)
  return 'run'
}

/** The handler runs now. When its answer is stored, it is sent. */
export function concludeLater({ response }: NodeExchange<unknown>, { held, outcome }: Extract<Begun, { kind: 'run' }>): void {
  outcome.then((decided) => conclude(response, held, decided))
}

const passes: Begun = { kind: 'pass' }

export function begin<Native, Tx>(layer: Idempotency<Native, Tx>, exchange: NodeExchange<Native>): Promise<Begun> {
  // Mounted twice: the outer one protects it already.
  if (hasRun(exchange.request)) return Promise.resolve(passes)
  return new Promise((resolve, reject) => new Entry(layer, exchange, resolve, reject).begin())
}

/** A request on its way to its handler. */
class Entry<Native, Tx> {
  readonly #layer: Idempotency<Native, Tx>
  readonly #exchange: NodeExchange<Native>
  readonly #resolve: (begun: Begun) => void
  readonly #reject: (error: unknown) => void
  readonly #baseline: OutgoingHttpHeaders
  readonly #socket: HeldSocket
  /** Somebody in front of us listens to it, and would have it all before the handler begins to. */
  readonly #isFlowing: boolean
  #heldRequest: HeldRequest | undefined
  #held: HeldResponse | undefined
  #outcome!: Promise<Outcome>

  constructor(
    layer: Idempotency<Native, Tx>,
    exchange: NodeExchange<Native>,
    resolve: (begun: Begun) => void,
    reject: (error: unknown) => void,
  ) {
    const { request, response, baseline = response.getHeaders() } = exchange
    this.#layer = layer
    this.#exchange = exchange
    this.#resolve = resolve
    this.#reject = reject
    this.#baseline = baseline
    // Not every server has one: some run functions.
    this.#socket = holdSocket(request.socket ?? {}, response)
    this.#isFlowing = request.readableFlowing === true
    if (this.#isFlowing) request.pause()
  }

  begin(): void {
    // Once the request is whole, nothing that happens to its client may take it away from the handler.
    const incoming = httpRequest(this.#exchange, this.#layer, () => this.#hold())
    const { request, response } = this.#exchange
    if (sharesNoShape(response) && this.#layer.concerns(incoming)) giveOneShape(request, response)
    this.#outcome = this.#layer.handle(incoming, this.#run).then(
      (decided) => this.#decided(decided),
      (error) => this.#failed(error),
    )
  }

  #hold(): void {
    const { request, response } = this.#exchange
    this.#heldRequest ??= holdRequest(request, response, this.#socket)
  }

  readonly #run: Handler<Tx> = (attempt, end) => {
    const { native, request, response } = this.#exchange
    this.#hold()
    // Somebody in front of us was tired of waiting for the key, and has answered: their status is not the handler's.
    if (response.writableEnded) response.statusCode = 200
    const hold = { baseline: this.#baseline, maxBytes: this.#layer.maxAnswerBytes, socket: this.#socket, end }
    const held = holdResponse(response, hold)
    this.#held = held
    rememberAttempt(request, attempt)
    if ((native as unknown) !== request && typeof native === 'object' && native !== null) rememberAttempt(native, attempt)
    if (this.#isFlowing) request.resume()
    this.#resolve({ kind: 'run', held, outcome: this.#outcome })
  }

  #decided(decided: Handled): Outcome {
    this.#end()
    // What nobody is going to read stands in the way of the next request.
    if (!this.#held && decided.kind === 'answer') this.#exchange.request.resume()
    if (decided.kind !== 'own') this.#resolve(decided)
    return decided as Outcome
  }

  #failed(error: unknown): Outcome {
    this.#end()
    this.#reject(errorOf(error))
    // Once the handler has begun, its framework has had its turn: there is nobody left to tell but the client.
    return { kind: 'answer', answer: reply(500) }
  }

  #end(): void {
    this.#heldRequest?.letGo()
    if (!this.#held) this.#socket.letGo()
    if (this.#isFlowing) this.#exchange.request.resume()
  }
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
function send(exchange: NodeExchange<unknown>, answer: Answer): Promise<void> {
  const { response } = exchange
  return new Promise((resolve) => {
    if (isGone(response)) return resolve()
    response.once('finish', resolve).once('close', resolve)
    sendOff(exchange, answer)
  })
}

/** The same without waiting, for a framework that was told to leave the response alone. */
export function sendOff({ response, baseline }: NodeExchange<unknown>, answer: Answer): void {
  if (isGone(response)) return
  sendAnswer(response, answer, baseline)
}

/** Runs the operation and sends its answer. What the operation's body throws comes out of here, with nothing sent. */
export async function respond<Native>(service: Service<Native>, exchange: NodeExchange<Native>): Promise<void> {
  if (sharesNoShape(exchange.response)) giveOneShape(exchange.request, exchange.response)
  const answer = await answerOf(service, exchange).catch((error: unknown) => {
    throw errorOf(error)
  })
  await send(exchange, answer)
}

/** Express and Fastify take an error that is nothing for none, and would go on to the handler. */
export function errorOf(thrown: unknown): Error {
  return (thrown || new Error(`Something threw ${String(thrown)} instead of an error.`)) as Error
}

/** The same, without sending it. */
export function answerOf<Native>(service: Service<Native>, exchange: NodeExchange<Native>): Promise<Answer> {
  return service.answer(httpRequest(exchange, service))
}
