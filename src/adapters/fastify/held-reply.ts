import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { FastifyReply } from 'fastify'
import { withinCap } from '../../core/answer.js'
import type { Concluding, Leaving } from '../../http/handler-attempt.js'
import { errorOf, holdFor, type NodeExchange } from '../node/exchange.js'
import { isGone } from '../node/http-versions.js'
import { ignoreLaterWrites } from '../node/late-writes.js'
import { changedPairs, sendAnswer } from '../node/response-headers.js'
import { isBodiless } from '../node/written-bytes.js'

type Done = (error: Error | null, payload?: unknown) => void

/** `open`: the handler has not answered. `storing`: its answer is on its way to the store. `over`: what is written leaves. */
type State = 'open' | 'storing' | 'over'

/**
 * A reply whose answer is stored on its way out, by the last of the `onSend` hooks. What that hook cannot see, because a handler writes to
 * `reply.raw`, or cannot keep, because it is a stream, is held below Fastify as any other response of Node is.
 */
export class HeldReply {
  readonly #reply: FastifyReply
  readonly #exchange: NodeExchange<unknown>
  readonly #baseline: OutgoingHttpHeaders
  readonly #attempt: Concluding
  readonly #maxBytes: number
  readonly #guard: RawGuard
  /** The headers that the handler set, also to the same value. */
  readonly #set = new Set<string>()
  #state: State = 'open'
  /** The client went before the handler answered. */
  #isAlone = false

  constructor(reply: FastifyReply, exchange: NodeExchange<unknown>, attempt: Concluding, maxBytes: number) {
    this.#reply = reply
    this.#exchange = exchange
    this.#baseline = exchange.baseline ?? {}
    this.#attempt = attempt
    this.#maxBytes = maxBytes
    this.#guard = new RawGuard(reply.raw, this)
    const { header } = reply
    reply.header = (name: string, value?: unknown) => {
      this.#set.add(name.toLowerCase())
      return header.call(reply, name, value)
    }
    attempt.onInterrupted((leaving) => void this.#interrupted(leaving))
    if (isGone(reply.raw)) this.clientGone()
  }

  /** The last `onSend` hook. */
  send(payload: unknown, done: Done): void {
    // An async handler that has sent its reply, and returns without it: Fastify does not know that the reply is on its way.
    if (this.#state === 'storing') return
    const body = bytesOf(payload)
    const isOpen = this.#state === 'open'
    if (isOpen && this.#attempt.isFromOutside(this.#reply.statusCode)) this.#sendFromOutside(payload, done)
    else if (isOpen && body) this.#storeAndSend(body, payload, done)
    else {
      if (isOpen) this.#holdRaw()
      done(null, payload)
    }
  }

  #storeAndSend(body: Uint8Array, payload: unknown, done: Done): void {
    this.#state = 'storing'
    const reply = this.#reply
    const { send, statusCode } = reply
    const headers = reply.getHeaders() as OutgoingHttpHeaders
    // For Fastify it is not sent yet: a second answer, or an error after the first, would change it.
    reply.send = (second?: unknown) => {
      if (second !== undefined) reply.log.warn({ err: second instanceof Error ? second : undefined }, 'Reply was already sent.')
      return reply
    }
    this.#store(body, headers).then(
      (leaving) => {
        reply.send = send
        restore(reply, statusCode, headers)
        this.#leave(leaving, payload, done)
      },
      (error: unknown) => {
        reply.send = send
        this.#pass()
        done(errorOf(error))
      },
    )
  }

  /** A handler that returned nothing. If its client has gone, Fastify sends nothing either, and the attempt would not end. */
  returnedNothing(): void {
    const reply = this.#reply
    if (this.#isAlone && !reply.sent && !reply.raw.headersSent) reply.send()
  }

  /** Fastify and streams ask the response whether anybody is still there: from now on it says so. */
  clientGone(): void {
    if (this.#state !== 'open') return
    this.#isAlone = true
    this.#holdRaw()
  }

  /** The handler writes past Fastify. False if what it writes goes nowhere. */
  rawTouched(): boolean {
    if (this.#state === 'open') this.#holdRaw()
    return this.#state === 'over'
  }

  rawDestroyed(error: Error | undefined): void {
    if (this.#state !== 'open') return
    this.#pass()
    this.#attempt.failed(error ?? new Error('The handler destroyed its response.')).catch(() => {})
  }

  #store(bytes: Uint8Array, sent = this.#reply.getHeaders() as OutgoingHttpHeaders): Promise<Leaving> {
    const status = this.#reply.statusCode
    // As Fastify does right after this.
    if (status === 204) delete sent['content-type']
    const headers = changedPairs(sent, this.#baseline, this.#set)
    return this.#attempt.answered(withinCap({ status, headers, body: isBodiless(status) ? nothing : bytes }, this.#maxBytes))
  }

  #leave(leaving: Leaving, payload: unknown, done: Done): void {
    this.#pass()
    const reply = this.#reply
    if (leaving.kind === 'own') {
      for (const [name, value] of leaving.headers) if (!reply.hasHeader(name)) reply.header(name, value)
      done(null, payload)
      return
    }
    sendAnswer(reply.raw, leaving.answer, this.#baseline)
    reply.hijack()
  }

  /** An error of those in front of the handler, such as a time-out: its client gets it, and the attempt goes on. */
  #sendFromOutside(payload: unknown, done: Done): void {
    const reply = this.#reply
    this.#guard.isPassing = true
    done(null, payload)
    // What the handler sends later has nowhere to go but the store.
    reply.raw.once('close', () => {
      reply.raw.statusCode = 200
    })
    reply.send = (late?: unknown) => {
      this.#storeLate(late).catch(() => {})
      return reply
    }
  }

  async #storeLate(payload: unknown): Promise<void> {
    if (this.#state !== 'open') return
    this.#pass()
    if (payload instanceof Error) await this.#attempt.failed(payload)
    const body = bytesOf(payload) ?? bytesOf(this.#reply.serialize(payload))
    if (body) await this.#store(body)
    else await this.#attempt.failed(new Error('The handler answered with a stream after its client was answered.'))
  }

  async #interrupted(leaving: Promise<Leaving>): Promise<void> {
    const { raw } = this.#reply
    const left = await leaving.catch((): undefined => undefined)
    if (this.#state !== 'open') return
    this.#pass()
    if (raw.writableEnded) return
    if (left?.kind === 'answer') sendAnswer(raw, left.answer, this.#baseline)
    else raw.destroy()
    ignoreLaterWrites(raw)
  }

  #holdRaw(): void {
    this.#state = 'over'
    this.#guard.isPassing = true
    this.#guard.remove()
    holdFor(this.#exchange, this.#attempt, this.#maxBytes)
  }

  #pass(): void {
    this.#state = 'over'
    this.#guard.isPassing = true
    this.#exchange.kept?.client?.letGo()
  }
}

/** What was changed while the answer was being stored would be in this answer only. */
function restore(reply: FastifyReply, status: number, headers: OutgoingHttpHeaders): void {
  if (reply.statusCode !== status) reply.code(status)
  const now = reply.getHeaders()
  for (const name of Object.keys(now)) if (!(name in headers)) reply.removeHeader(name)
  for (const [name, value] of Object.entries(headers)) if (now[name] !== value) reply.header(name, value)
}

const nothing = new Uint8Array()

/** Undefined for a stream. */
function bytesOf(payload: unknown): Uint8Array | undefined {
  if (payload === null || payload === undefined) return nothing
  if (typeof payload === 'string') return Buffer.from(payload)
  return payload instanceof Uint8Array ? payload : undefined
}

const guard = Symbol('oncekey.guard')

type Guarded = ServerResponse & { [guard]: RawGuard }

const names = ['writeHead', 'flushHeaders', 'write', 'end', 'destroy'] as const

type Methods = Pick<ServerResponse, (typeof names)[number] | 'emit'>

/** Notices what is written to a response past Fastify, and that its client goes. */
class RawGuard {
  isPassing = false
  readonly #raw: ServerResponse
  readonly #saved: Methods

  constructor(
    raw: ServerResponse,
    readonly held: HeldReply,
  ) {
    const { writeHead, flushHeaders, write, end, destroy, emit } = raw
    this.#raw = raw
    this.#saved = { writeHead, flushHeaders, write, end, destroy, emit }
    ;(raw as Guarded)[guard] = this
    Object.assign(raw, guarded)
  }

  emit(event: string, details: never[]): boolean {
    if (event === 'close' && !this.isPassing) this.held.clientGone()
    const emit = this.#isRemoved ? this.#raw.emit : this.#saved.emit
    return emit.call(this.#raw, event, ...details)
  }

  call(name: (typeof names)[number], args: never[]): unknown {
    if (!this.isPassing && name === 'destroy') this.held.rawDestroyed(args[0])
    if (!this.isPassing && !this.held.rawTouched()) return name === 'write' ? true : this.#raw
    // Held now, or as it was.
    const method = this.#isRemoved ? this.#raw[name] : this.#saved[name]
    return Reflect.apply(method, this.#raw, args)
  }

  #isRemoved = false

  remove(): void {
    this.#isRemoved = true
    Object.assign(this.#raw, this.#saved)
  }
}

/** The same functions for all responses. */
const guarded: Methods = {
  writeHead(this: Guarded, ...args: never[]) {
    return this[guard].call('writeHead', args)
  },
  flushHeaders(this: Guarded, ...args: never[]) {
    return this[guard].call('flushHeaders', args)
  },
  write(this: Guarded, ...args: never[]) {
    return this[guard].call('write', args)
  },
  end(this: Guarded, ...args: never[]) {
    return this[guard].call('end', args)
  },
  destroy(this: Guarded, ...args: never[]) {
    return this[guard].call('destroy', args)
  },
  emit(this: Guarded, event: string, ...details: never[]) {
    return this[guard].emit(event, details)
  },
} as never
