import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { type Answer, reply } from '../../core/answer.js'
import { namedThrownText } from '../../core/thrown-text.js'
import type { Concluding, Leaving } from '../../http/handler-attempt.js'
import type { Idempotency } from '../../http/idempotency.js'
import { hasRun, rememberAttempt } from '../../http/run-of.js'
import type { Service } from '../../http/serve.js'
import { HeldClient } from './held-client.js'
import { type Ending, HeldResponse } from './held-response.js'
import { httpRequest, type NodeRequest } from './http-request.js'
import { breakOff, isGone } from './http-versions.js'
import { redirectOpenly } from './late-writes.js'
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
  | { readonly kind: 'run'; readonly within: CallHandler; readonly held: HeldAttempt; readonly outcome: Promise<Leaving> }

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
  begun.outcome.then((decided) => conclude(exchange.response, begun.held, decided))
  return begun.within
}

export async function begin<Native, Tx>(layer: Idempotency<Native, Tx>, exchange: NodeExchange<Native>): Promise<Begun> {
  const { native, request, response } = exchange
  // Mounted twice: the outer one protects it already.
  if (hasRun(request)) return { kind: 'pass' }
  const client = new HeldClient(request, response)
  // Once the request is whole, nothing that happens to its client may take it away from the handler.
  const incoming = httpRequest(exchange, layer, () => client.holdRequest())
  if (!layer.concerns(incoming)) return { kind: 'pass' }
  const baseline = exchange.baseline ?? response.getHeaders()
  // Middleware in front listens to it, and would have it all before the handler begins.
  const isFlowing = request.readableFlowing === true
  if (isFlowing) request.pause()
  const letGo = () => {
    client.letGo()
    if (isFlowing) request.resume()
  }

  const begun = await layer.begin(incoming).catch((error: unknown) => {
    letGo()
    throw errorOf(error)
  })
  if (begun.kind !== 'run') {
    letGo()
    // What is left unread stands in the way of the next request.
    if (begun.kind === 'answer') request.resume()
    return begun
  }
  const { attempt } = begun
  client.holdRequest()
  const held = new HeldAttempt(exchange, attempt, baseline, layer.maxAnswerBytes)
  held.hold(client)
  const outcome = held.outcome.then((leaving) => {
    letGo()
    return leaving
  })
  rememberAttempt(request, attempt.attempt)
  if ((native as unknown) !== request && typeof native === 'object' && native !== null) rememberAttempt(native, attempt.attempt)
  if (isFlowing) request.resume()
  return { kind: 'run', within: (handler) => attempt.within(handler), held, outcome }
}

/** A handler's response, from which its answer is caught and stored. */
export class HeldAttempt implements Ending {
  /** The framework has had its turn once the handler has begun: only the client is left to be answered. */
  readonly outcome: Promise<Leaving>
  #leave!: (leaving: Promise<Leaving>) => void
  #held!: HeldResponse

  constructor(
    readonly exchange: NodeExchange<unknown>,
    readonly attempt: Concluding,
    readonly baseline: OutgoingHttpHeaders,
    readonly maxBytes: number,
  ) {
    this.outcome = new Promise<Leaving>((resolve) => {
      this.#leave = resolve
    }).catch((): Leaving => ({ kind: 'answer', answer: reply(500) }))
    attempt.onInterrupted(this.#leave)
  }

  hold(client: HeldClient): void {
    const { response, baseline } = this.exchange
    // Middleware in front did not wait for the key, and has answered.
    if (response.writableEnded) {
      this.#holdAnswered()
      return
    }
    client.holdSockets()
    this.#held = new HeldResponse(response, { ...this.#options, client, setsAllHeaders: baseline !== undefined })
  }

  #holdAnswered(): void {
    const other = redirectOpenly(this.exchange.response, this.baseline)
    this.#held = new HeldResponse(other, { ...this.#options, isAnswered: true })
  }

  get #options() {
    return { baseline: this.baseline, maxBytes: this.maxBytes, end: this }
  }

  answer(answer: Answer): void {
    if (answer.omittedBytes !== undefined || !this.attempt.isFromOutside(answer.status)) {
      this.#leave(this.attempt.answered(answer))
      return
    }
    // An error of those in front of the handler, such as a time-out: its client gets it, and what the handler answers is caught all the same.
    this.#held.release([])
    this.#holdAnswered()
  }

  fail(error: unknown): void {
    this.#leave(this.attempt.failed(error))
  }

  release(extra: Answer['headers']): void {
    this.#held.release(extra)
  }

  replaceBy(answer: Answer): void {
    this.#held.replaceBy(answer)
  }

  giveBack(): void {
    this.#held.giveBack()
  }
}

/** Holds a response whose handler has begun already. */
export function holdFor(exchange: NodeExchange<unknown>, attempt: Concluding, maxBytes: number): void {
  const { request, response, baseline } = exchange
  const client = exchange.kept?.client ?? new HeldClient(request, response)
  const held = new HeldAttempt(exchange, attempt, baseline ?? response.getHeaders(), maxBytes)
  held.hold(client)
  held.outcome.then((decided) => {
    client.letGo()
    conclude(response, held, decided)
  })
}

/** Sends what was decided. What middleware in front throws then has no caller to catch it. */
export function conclude(response: ServerResponse, held: HeldAttempt, decided: Leaving): void {
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
  sendAnswer(response, answer, baseline)
}

/** Runs the operation and sends its answer. What the operation's body throws comes out of here, with nothing sent. */
export async function respond<Native>(service: Service<Native>, exchange: NodeExchange<Native>): Promise<void> {
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
