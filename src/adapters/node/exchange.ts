import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { type Answer, reply } from '../../core/answer.js'
import { namedThrownText } from '../../core/thrown-text.js'
import type { Concluding, HandlerAttempt, Leaving } from '../../http/handler-attempt.js'
import type { Idempotency } from '../../http/idempotency.js'
import { hasRun, rememberAttempt } from '../../http/run-of.js'
import type { Service } from '../../http/serve.js'
import { type HeldRequest, holdRequest } from './held-request.js'
import { type Ending, type HeldResponse, type HoldOptions, holdResponse } from './held-response.js'
import { type HeldSocket, holdSocket } from './held-socket.js'
import { httpRequest, type NodeRequest } from './http-request.js'
import { breakOff, isGone } from './http-versions.js'
import { giveOneShape, sharesNoShape } from './one-shape.js'
import { mergeHeaders, sendAnswer } from './response-headers.js'

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
  | ({ readonly kind: 'run'; readonly within: CallHandler } & HeldAttempt)

interface HeldAttempt {
  readonly held: HeldResponse
  readonly outcome: Promise<Leaving>
}

/** Calls the handler, in the context of its attempt. */
export type CallHandler = <T>(handler: () => T) => T

/**
 * The way of a request to its handler, whose answer is caught, stored, and sent after that. Undefined if the client has its answer and the
 * handler must not run.
 */
export async function enter<Native, Tx>(layer: Idempotency<Native, Tx>, exchange: NodeExchange<Native>): Promise<CallHandler | undefined> {
  const begun = await begin(layer, exchange)
  if (begun.kind === 'pass') return (handler) => handler()
  if (begun.kind === 'answer') {
    await send(exchange, begun.answer)
    return undefined
  }
  concludeLater(exchange, begun)
  return begun.within
}

/** The handler runs now. When its answer is stored, it is sent. */
function concludeLater({ response }: NodeExchange<unknown>, { held, outcome }: HeldAttempt): void {
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
    this.#layer.begin(incoming).then(
      (begun) => {
        if (begun.kind === 'run') return this.#run(begun.attempt)
        this.#end()
        // What is left unread stands in the way of the next request.
        if (begun.kind === 'answer') this.#exchange.request.resume()
        this.#resolve(begun)
      },
      (error) => {
        this.#end()
        this.#reject(errorOf(error))
      },
    )
  }

  #hold(): void {
    const { request, response } = this.#exchange
    this.#heldRequest ??= holdRequest(request, response, this.#socket)
  }

  #run(attempt: HandlerAttempt<Tx>): void {
    const { native, request, response } = this.#exchange
    this.#hold()
    // Somebody in front of us was tired of waiting for the key, and has answered: their status is not the handler's.
    if (response.writableEnded) response.statusCode = 200
    const hold = { baseline: this.#baseline, maxBytes: this.#layer.maxAnswerBytes, socket: this.#socket }
    const { held, outcome } = holdAttempt(response, attempt, hold)
    outcome.finally(() => this.#end())
    this.#held = held
    rememberAttempt(request, attempt.attempt)
    if ((native as unknown) !== request && typeof native === 'object' && native !== null) rememberAttempt(native, attempt.attempt)
    if (this.#isFlowing) request.resume()
    this.#resolve({ kind: 'run', within: (handler) => attempt.within(handler), held, outcome })
  }

  #end(): void {
    this.#heldRequest?.letGo()
    if (!this.#held) this.#socket.letGo()
    if (this.#isFlowing) this.#exchange.request.resume()
  }
}

/** Holds a response whose handler has begun already. */
export function holdFor(exchange: NodeExchange<unknown>, attempt: Concluding, maxBytes: number): void {
  const { request, response, baseline = response.getHeaders() } = exchange
  const socket = holdSocket(request.socket ?? {}, response)
  concludeLater(exchange, holdAttempt(response, attempt, { baseline, maxBytes, socket }))
}

/** Catches what the handler answers, and stores it. */
function holdAttempt(response: ServerResponse, attempt: Concluding, options: Omit<HoldOptions, 'end'>): HeldAttempt {
  let leave!: (leaving: Promise<Leaving>) => void
  // The framework has had its turn once the handler has begun: only the client is left to be answered.
  const outcome = new Promise<Leaving>((resolve) => {
    leave = resolve
  }).catch((): Leaving => ({ kind: 'answer', answer: reply(500) }))
  attempt.onInterrupted(leave)
  const end: Ending = {
    answer(answer) {
      if (answer.omittedBytes === undefined && attempt.isFromOutside(answer.status)) letOut()
      else leave(attempt.answered(answer))
    },
    fail: (error) => leave(attempt.failed(error)),
  }
  let current = holdResponse(response, { ...options, end })
  const held: HeldResponse = {
    release: (extra) => current.release(extra),
    replaceBy: (answer) => current.replaceBy(answer),
    giveBack: () => current.giveBack(),
  }
  return { held, outcome }

  /** An error of those in front of the handler, such as a time-out: its client gets it, and what the handler answers is caught all the same. */
  function letOut(): void {
    current.release([])
    current = holdResponse(response, { ...options, end, isAnswered: true })
    response.statusCode = 200
    for (const name of response.getHeaderNames()) response.removeHeader(name)
    mergeHeaders(response, options.baseline)
  }
}

/** Sends what was decided. Whatever middleware in front of us throws at that, there is nobody to catch it. */
export function conclude(response: ServerResponse, held: HeldResponse, decided: Leaving): void {
  try {
    if (decided.kind === 'own') held.release(decided.headers)
    else held.replaceBy(decided.answer)
  } catch (error) {
    breakOff(response)
    process.emitWarning(`An answer could not be sent: ${namedThrownText(error)}`, { code: 'ONCEKEY_NOT_SENT' })
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
