import { type OutgoingHttpHeaders, ServerResponse, validateHeaderValue } from 'node:http'
import type { Socket } from 'node:net'
import type { Answer } from '../../core/answer.js'
import type { Disguise } from './disguise.js'
import { HeldBody } from './held-body.js'
import { type HeldSocket, hideListeners } from './held-socket.js'
import { breakOff } from './http-versions.js'
import { ignoreLaterWrites, sendInstead } from './ignored-writes.js'
import { Overrides } from './overrides.js'
import { isPlainResponse, PlainResponse } from './plain-response.js'
import { changedHeaders, type HeadersArgument, mergeHeaders } from './response-headers.js'
import { bytesOf, type Callback, type Chunk } from './written-bytes.js'

/** A response whose handler writes as ever, and of which nothing is complete before we say so. */
export interface HeldResponse {
  /** Lets the handler's own answer go, with these headers where it has none of that name. */
  release(extra: Answer['headers']): void
  /** Sends this instead; whatever the handler wrote, or writes later, is dropped. */
  replaceBy(answer: Answer): void
  /** Leaves the handler's status and headers on the response, and everything else to whoever sends them. */
  giveBack(): void
}

/** Where a handler's end is told, once. */
export interface Ending {
  answer(answer: Answer): void
  fail(error: unknown): void
}

export interface HoldOptions {
  /** The headers that are there before the handler, and will be at a replay: only what differs from them is part of the answer. */
  readonly baseline: OutgoingHttpHeaders
  /** Larger bodies are not kept in memory: they flow, but for their last piece. */
  readonly maxBytes: number
  readonly socket: HeldSocket
  /** Is told what the handler answered, once it has; or that it destroyed the response. */
  readonly end: Ending
  /** The client has its answer, from those in front of the handler. What the handler answers is caught, and goes nowhere. */
  readonly isAnswered?: boolean
}

/**
 * Holds a response. Below every framework on Node there is this one object, so `res.json`, `res.end`, pipes, `sendFile`, `reply.send`,
 * `reply.raw` and `@Res()` are all caught here. A client that hangs up is not noticed by the handler: its work goes on.
 */
export function holdResponse(response: ServerResponse, options: HoldOptions): HeldResponse {
  return new Held(response, options)
}

/** Where the functions below find what they are about. It stays: who took one of them off the response may call it at any time. */
const held = Symbol('oncekey.held')

type Holding = ServerResponse & { [held]: Held }

type EndArgument = Chunk | Callback | BufferEncoding | null | undefined

/** What stands in front of the methods of a response. The same functions for all of them: see `Overrides`. */
const methods = {
  writeHead(this: Holding, code: number | string, ...rest: unknown[]) {
    return this[held].writeHead(code, rest)
  },
  flushHeaders(this: Holding) {
    this[held].writeHeadIfNeeded()
  },
  write(this: Holding, chunk: Chunk, encoding?: BufferEncoding | Callback, callback?: Callback) {
    return this[held].write(chunk, encoding, callback)
  },
  end(this: Holding, ...args: EndArgument[]) {
    return this[held].end(args)
  },
  destroy(this: Holding, error?: Error) {
    return this[held].destroy(error)
  },
  emit(this: Holding, event: string, ...details: unknown[]) {
    return this[held].emit(event, details)
  },
  on(this: Holding, event: string, listener: () => void) {
    return this[held].on(event, listener)
  },
}

const own = ServerResponse.prototype

/** What Node itself goes by when it writes. */
const neededToWrite = ['writeHead', 'writeHeader', 'flushHeaders', 'headersSent', '_header', 'finished', 'destroyed', '_closed']

/** For responses of HTTP/2, and for those of which others have replaced methods before us. */
function overridden(response: ServerResponse, seeming: Socket): Overrides<ServerResponse> {
  const overrides = new Overrides(response)
  overrides.method('writeHead', methods.writeHead)
  overrides.method('writeHeader', methods.writeHead)
  overrides.method('flushHeaders', methods.flushHeaders)
  overrides.method('write', methods.write)
  overrides.method('end', methods.end)
  overrides.method('destroy', methods.destroy)
  overrides.method('emit', methods.emit)
  if (Object.hasOwn(response, 'on')) overrides.method('on', methods.on)
  hideListeners(overrides)
  overrides.value('_header', null)
  overrides.value('finished', false)
  overrides.value('destroyed', false)
  overrides.value('_closed', false)
  overrides.value('socket', seeming)
  return overrides
}

class Held implements HeldResponse {
  readonly #response: ServerResponse
  readonly #baseline: OutgoingHttpHeaders
  readonly #socket: HeldSocket
  readonly #disguise: Disguise<ServerResponse>
  readonly #body: HeldBody
  /** Undefined until the head is written. */
  #status: number | undefined
  #flowing = false
  #ended = false
  #over = false
  /** What Node told, and nobody heard: its client has gone, or has all of what somebody in front of us answered. */
  readonly #unheard: ('close' | 'finish')[] = []
  readonly #told: Ending
  readonly #isAnswered: boolean

  constructor(response: ServerResponse, { baseline, maxBytes, socket, end, isAnswered = false }: HoldOptions) {
    this.#isAnswered = isAnswered
    this.#response = response
    this.#baseline = baseline
    this.#socket = socket
    this.#body = new HeldBody(maxBytes, this)
    this.#told = end
    ;(response as Holding)[held] = this
    this.#disguise = isPlainResponse(response) ? new PlainResponse(response, socket.seeming, methods) : overridden(response, socket.seeming)
    this.#seem()
  }

  /** What HTTP/1 derives from other values. HTTP/2 does not. */
  #seem(): void {
    this.#disguise.show('headersSent', this.#status !== undefined)
    this.#disguise.show('writableEnded', this.#ended)
    this.#disguise.show('writableFinished', false)
  }

  release(extra: Answer['headers']): void {
    if (!this.#finish()) return
    const response = this.#response
    if (!this.#flowing) {
      // Whoever changes it after the head is written changes nothing on Node.
      response.statusCode = this.#status as number
      for (const [name, value] of extra) if (!response.hasHeader(name)) response.setHeader(name, value)
    }
    // One piece in one call: then Node says how long it is. If nobody is left to get it, those in front of us have their say all the
    // same: sessions are saved at the end.
    if (!response.writableEnded) response.end(this.#body.rest())
    if (this.#isGone) this.#leave()
  }

  replaceBy(given: Answer): void {
    if (!this.#finish()) return
    const response = this.#response
    if (this.#isGone || response.writableEnded) {
      this.#leave()
      return
    }
    if (this.#flowing) breakOff(response)
    else sendInstead(response, given, this.#baseline)
    ignoreLaterWrites(response)
  }

  giveBack(): void {
    if (this.#finish()) this.#tellUnheard()
  }

  /** There is nobody left to answer. */
  get #isGone(): boolean {
    return this.#isAnswered || this.#unheard.length > 0
  }

  writeHead(code: number | string, rest: readonly unknown[]): ServerResponse {
    if (this.#over) return this.#response
    // Node writes it itself.
    if (this.#flowing) return own.writeHead.call(this.#response, code as number, ...(rest as never[]))
    if (this.#status !== undefined) {
      // As Node says it: some look for the code.
      throw Object.assign(new Error('Cannot write headers after they are sent to the client'), { code: 'ERR_HTTP_HEADERS_SENT' })
    }
    const response = this.#response
    // As Node does it, and at once: when the answer leaves there is nobody left to throw to.
    const written = Number(code) | 0
    if (written < 100 || written > 999) throw new RangeError(`Invalid status code: ${code}`)
    if (typeof rest[0] === 'string') {
      validateHeaderValue('status message', rest[0])
      response.statusMessage = rest[0]
    }
    mergeHeaders(response, rest.find((argument) => typeof argument === 'object' && argument !== null) as HeadersArgument)
    response.statusCode = written
    this.#status = written
    this.#disguise.show('_header', 'held')
    this.#seem()
    return response
  }

  writeHeadIfNeeded(): void {
    // By its name, so that whoever put something in front of it meanwhile has their say.
    if (this.#status === undefined) this.#response.writeHead(this.#response.statusCode)
  }

  write(chunk: Chunk, encoding?: BufferEncoding | Callback, callback?: Callback): boolean {
    const done = typeof encoding === 'function' ? encoding : callback
    const piece = bytesOf(chunk, encoding)
    if (this.#over || this.#ended) {
      if (done) process.nextTick(done, this.#over ? null : new Error('The response was ended already.'))
      return this.#over
    }
    this.writeHeadIfNeeded()
    return this.#body.write(piece, typeof chunk === 'string', done)
  }

  end(args: readonly EndArgument[]): ServerResponse {
    const response = this.#response
    if (this.#over) return response
    const [chunk, encoding] = args
    const piece = chunk === undefined || chunk === null || typeof chunk === 'function' ? undefined : bytesOf(chunk, encoding)
    if (!this.#ended) this.writeHeadIfNeeded()
    const done = args.find((argument) => typeof argument === 'function')
    if (done) response.once('finish', done)
    if (this.#ended) return response
    if (piece) this.#body.write(piece, typeof chunk === 'string')
    this.#ended = true
    this.#seem()
    this.#told.answer(this.#body.kept(this.#status as number, changedHeaders(response, this.#baseline)))
    return response
  }

  destroy(error: Error | undefined): ServerResponse {
    const response = this.#response
    // A framework does that to a handler which answers twice; the first answer is whole, and on its way.
    if (this.#ended || !this.#finish()) return response
    this.#told.fail(error ?? new Error('The handler destroyed its response.'))
    if (this.#isGone) this.#leave()
    else response.destroy(error)
    return response
  }

  emit(event: string, details: readonly unknown[]): boolean {
    const response = this.#response
    if (this.#over) return this.#disguise.inherited('emit').call(response, event, ...details)
    this.#disguise.hideChanges()
    if (this.#isAnswered || (event !== 'close' && event !== 'finish'))
      return this.#disguise.original('emit').call(response, event, ...details)
    this.#unheard.push(event)
    // Whoever waits for the client to read on would wait for ever.
    if (this.#flowing) response.emit('drain')
    return true
  }

  /** Who compresses in front of us sends those who wait for 'drain' to a stream of theirs, where we could not wake them. */
  on(event: string, listener: () => void): ServerResponse {
    const on = event === 'drain' ? this.#disguise.inherited('on') : this.#disguise.original('on')
    return on.call(this.#response, event, listener)
  }

  flow(bytes: Uint8Array, done: Callback | undefined): boolean {
    if (this.#isGone) {
      if (done) process.nextTick(done)
      return true
    }
    if (!this.#flowing) this.#startFlowing()
    // That the client has gone is no error of the handler's.
    return this.#disguise.original('write').call(this.#response, bytes, 'utf8', () => done?.())
  }

  #startFlowing(): void {
    const response = this.#response
    this.#flowing = true
    this.#disguise.remove(neededToWrite)
    response.statusCode = this.#status as number
    let telling = false
    // See above: those who wait for us, and not for who compresses, are told by us.
    this.#disguise.replaced('on')?.call(response, 'drain', () => {
      if (telling) return
      telling = true
      response.emit('drain')
      telling = false
    })
  }

  /** False if it was over before. */
  #finish(): boolean {
    if (this.#over) return false
    this.#over = true
    this.#disguise.remove()
    this.#socket.letGo()
    this.#socket.tellWhenClosed(this.#response)
    return true
  }

  #leave(): void {
    const response = this.#response
    ignoreLaterWrites(response)
    // It was over before it was held: Node told that to all who were there then.
    if (!this.#isGone && response.writableFinished) response.emit('close')
    this.#tellUnheard()
  }

  /** Node listens, too: only when it hears that an answer is finished does the next request of the connection have its turn. */
  #tellUnheard(): void {
    for (const event of this.#unheard) this.#response.emit(event)
  }
}
