import { type OutgoingHttpHeaders, type ServerResponse, validateHeaderValue } from 'node:http'
import type { Answer } from '../../core/answer.js'
import { HeldBody } from './held-body.js'
import type { HeldClient } from './held-client.js'
import { breakOff, isGone } from './http-versions.js'
import { ignoreLaterWrites, sendInstead } from './late-writes.js'
import { changedHeaders, type HeadersArgument, mergeHeaders } from './response-headers.js'
import { bytesOf, type Callback, type Chunk } from './written-bytes.js'

/** Where a handler's end is reported, once. */
export interface Ending {
  answer(answer: Answer): void
  /** The handler destroyed its response. */
  fail(error: unknown): void
}

export interface HoldOptions {
  /** The headers that were set before the handler began. */
  readonly baseline: OutgoingHttpHeaders
  /** Larger bodies are not kept in memory: they flow, but for their last piece. */
  readonly maxBytes: number
  readonly end: Ending
  /** Absent: the handler sees that its client has gone. */
  readonly client?: HeldClient
  /** The client has its answer already: what the handler writes is caught, and goes nowhere. */
  readonly isAnswered?: boolean
  /** A framework writes all headers at once, those in front of the handler included: then who set them cannot be known. */
  readonly setsAllHeaders?: boolean
}

const held = Symbol('oncekey.held')

type Holding = ServerResponse & { [held]: HeldResponse }

type EndArgument = Chunk | Callback | BufferEncoding | null | undefined

/** The methods that are replaced; the same functions for all responses. */
const methods = {
  writeHead(this: Holding, code: number | string, ...rest: unknown[]) {
    return this[held].writeHead(code, rest)
  },
  // Its old name, which Node had up to version 24.
  writeHeader(this: Holding, code: number | string, ...rest: unknown[]) {
    return this[held].writeHead(code, rest)
  },
  flushHeaders(this: Holding) {
    this[held].flushHeaders()
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
  setHeader(this: Holding, ...args: unknown[]) {
    return this[held].changeHeader('setHeader', args)
  },
  appendHeader(this: Holding, ...args: unknown[]) {
    return this[held].changeHeader('appendHeader', args)
  },
  removeHeader(this: Holding, ...args: unknown[]) {
    return this[held].changeHeader('removeHeader', args)
  },
  emit(this: Holding, event: string, ...details: unknown[]) {
    return this[held].emit(event, details)
  },
} as unknown as Saved

type Saved = Pick<
  ServerResponse,
  'writeHead' | 'flushHeaders' | 'write' | 'end' | 'destroy' | 'setHeader' | 'appendHeader' | 'removeHeader' | 'emit'
> & { writeHeader: ServerResponse['writeHead'] }

/** Error handlers look at it. */
const headersSent: PropertyDescriptor & ThisType<Holding> = {
  configurable: true,
  get() {
    return this[held].headersSent ?? Reflect.get(Object.getPrototypeOf(this), 'headersSent', this)
  },
}

/**
 * Holds what a handler writes, as the `compression` package does: `writeHead`, `write` and `end` of the response are saved and replaced, and the saved ones
 * are called when the answer is stored. Below every framework on Node there is this one object, so `res.json`, pipes, `sendFile`, `reply.raw` and
 * `@Res()` are all caught here.
 */
export class HeldResponse {
  readonly #response: ServerResponse
  readonly #options: HoldOptions
  readonly #saved: Saved
  readonly #body: HeldBody
  /** The own `on` of a response that middleware in front compresses. */
  readonly #on: ServerResponse['on'] | undefined
  /** The headers that the handler set, also to the same value. */
  readonly #set = new Set<string>()
  /** Undefined until the head is written. */
  #status: number | undefined
  #isFlowing = false
  #isEnded = false
  #isOver = false
  /** What Node emitted meanwhile, because the client has gone. */
  readonly #unheard: string[] = []
  /** The client had gone before: its listeners were told then that it is closed. */
  readonly #toldClosed: ReadonlySet<unknown> | undefined

  constructor(response: ServerResponse, options: HoldOptions) {
    const { writeHead, flushHeaders, write, end, destroy, setHeader, appendHeader, removeHeader, emit } = response
    const { writeHeader } = response as unknown as Saved
    this.#response = response
    this.#options = options
    this.#saved = { writeHead, writeHeader, flushHeaders, write, end, destroy, setHeader, appendHeader, removeHeader, emit }
    this.#body = new HeldBody(options.maxBytes, (bytes, done) => this.#flow(bytes, done))
    ;(response as Holding)[held] = this
    Object.assign(response, methods)
    Object.defineProperty(response, 'headersSent', headersSent)
    if (Object.hasOwn(response, 'on')) {
      this.#on = response.on
      response.on = ((event: string, listener: () => void) => this.#listen(event, listener)) as ServerResponse['on']
    }
    if (options.client && isGone(response)) {
      this.#toldClosed = new Set(response.rawListeners('close'))
      this.#seemOpen()
    }
  }

  /** Lets the handler's own answer go, with these headers where it has none of that name. */
  release(extra: Answer['headers']): void {
    if (!this.#finish()) return
    const response = this.#response
    if (!this.#isFlowing) {
      response.statusCode = this.#status as number
      for (const [name, value] of extra) if (!response.hasHeader(name)) response.setHeader(name, value)
    }
    // In one piece: then Node says how long it is. Without a client, middleware in front is called all the same: sessions are saved at the end.
    if (!response.writableEnded) response.end(this.#body.rest())
    if (this.#isGone) this.#leave()
  }

  /** Sends this instead. What the handler wrote, or writes later, is dropped. */
  replaceBy(answer: Answer): void {
    if (!this.#finish()) return
    const response = this.#response
    if (this.#isGone || response.writableEnded) {
      this.#leave()
      return
    }
    if (this.#isFlowing) breakOff(response)
    else sendInstead(response, answer, this.#options.baseline)
    ignoreLaterWrites(response)
  }

  /** Leaves status and headers on the response, and everything else to its sender. */
  giveBack(): void {
    if (this.#finish()) this.#emitUnheard()
  }

  /** No client is left to answer. */
  get #isGone(): boolean {
    return this.#options.isAnswered === true || this.#toldClosed !== undefined || this.#unheard.length > 0
  }

  /** Undefined: Node knows. */
  get headersSent(): boolean | undefined {
    return this.#isOver || this.#isFlowing ? undefined : this.#status !== undefined
  }

  writeHead(code: number | string, rest: readonly unknown[]): ServerResponse {
    const response = this.#response
    if (this.#isOver) return response
    this.#refuseIfSent()
    // As Node does it, and at once: when the answer leaves no caller is left to throw to.
    const written = Number(code) | 0
    if (written < 100 || written > 999) throw new RangeError(`Invalid status code: ${code}`)
    if (typeof rest[0] === 'string') {
      validateHeaderValue('status message', rest[0])
      response.statusMessage = rest[0]
    }
    mergeHeaders(response, rest.find((argument) => typeof argument === 'object' && argument !== null) as HeadersArgument)
    response.statusCode = written
    this.#status = written
    return response
  }

  flushHeaders(): void {
    if (!this.#isOver) this.#writeHeadIfNeeded()
  }

  changeHeader(method: 'setHeader' | 'appendHeader' | 'removeHeader', args: readonly unknown[]): ServerResponse {
    if (!this.#isOver) {
      this.#refuseIfSent()
      if (!this.#options.setsAllHeaders) this.#set.add(String(args[0]).toLowerCase())
    }
    return Reflect.apply(this.#saved[method] as never, this.#response, args)
  }

  write(chunk: Chunk, encoding?: BufferEncoding | Callback, callback?: Callback): boolean {
    const done = typeof encoding === 'function' ? encoding : callback
    const piece = bytesOf(chunk, encoding)
    if (this.#isOver || this.#isEnded) {
      if (done) process.nextTick(done, this.#isOver ? null : new Error('The response was ended already.'))
      return this.#isOver
    }
    this.#writeHeadIfNeeded()
    return this.#body.write(piece, typeof chunk === 'string', done)
  }

  end(args: readonly EndArgument[]): ServerResponse {
    const response = this.#response
    if (this.#isOver) return response
    const [chunk, encoding] = args
    const piece = chunk === undefined || chunk === null || typeof chunk === 'function' ? undefined : bytesOf(chunk, encoding)
    if (!this.#isEnded) this.#writeHeadIfNeeded()
    const done = args.find((argument) => typeof argument === 'function')
    if (done) response.once('finish', done)
    if (this.#isEnded) return response
    if (piece) this.#body.write(piece, typeof chunk === 'string')
    this.#isEnded = true
    const { baseline, end } = this.#options
    end.answer(this.#body.kept(this.#status as number, changedHeaders(response, baseline, this.#set)))
    return response
  }

  destroy(error: Error | undefined): ServerResponse {
    const response = this.#response
    // A framework destroys the response of a handler that answers twice; the first answer is whole, and is being stored.
    if (this.#isEnded || !this.#finish()) return response
    this.#options.end.fail(error ?? new Error('The handler destroyed its response.'))
    if (this.#isGone) this.#leave()
    else response.destroy(error)
    return response
  }

  emit(event: string, details: readonly unknown[]): boolean {
    const response = this.#response
    const isHidden = this.#options.client && !this.#isOver && (event === 'close' || event === 'finish')
    if (!isHidden) return this.#saved.emit.call(response, event, ...details)
    if (this.#unheard.length === 0) this.#seemOpen()
    this.#unheard.push(event)
    // A writer that waits for the client to read would never go on.
    if (this.#isFlowing) response.emit('drain')
    return true
  }

  /** `stream.pipeline()` refuses a response that is closed. */
  #seemOpen(): void {
    const get = () => this.#isOver
    for (const name of ['destroyed', 'closed']) Object.defineProperty(this.#response, name, { get, set() {}, configurable: true })
  }

  /** Compression in front redirects 'drain' to its own stream, which we cannot wake: use the original. */
  #listen(event: string, listener: () => void): ServerResponse {
    const on = event === 'drain' && !this.#isOver ? Object.getPrototypeOf(this.#response).on : this.#on
    return on.call(this.#response, event, listener)
  }

  /** Says whether there is room for more. */
  #flow(bytes: Uint8Array, done: Callback | undefined): boolean {
    if (this.#isGone) {
      if (done) process.nextTick(done)
      return true
    }
    if (!this.#isFlowing) this.#startFlowing()
    // A client that has gone is no error of the handler.
    return this.#saved.write.call(this.#response, bytes, 'utf8', () => done?.())
  }

  #startFlowing(): void {
    const response = this.#response
    const { writeHead, writeHeader, flushHeaders, setHeader, appendHeader, removeHeader } = this.#saved
    this.#isFlowing = true
    Object.assign(response, { writeHead, writeHeader, flushHeaders, setHeader, appendHeader, removeHeader })
    response.statusCode = this.#status as number
    let isTelling = false
    // The other way round: the compression's stream has room.
    this.#on?.call(response, 'drain', () => {
      if (isTelling) return
      isTelling = true
      response.emit('drain')
      isTelling = false
    })
  }

  #writeHeadIfNeeded(): void {
    // By its name: code behind us may have replaced it.
    if (this.#status === undefined) this.#response.writeHead(this.#response.statusCode)
  }

  #refuseIfSent(): void {
    if (this.#status === undefined || this.#isFlowing) return
    throw Object.assign(new Error('Cannot write headers after they are sent to the client'), { code: 'ERR_HTTP_HEADERS_SENT' })
  }

  /** Puts the saved methods back. False if that was done before. */
  #finish(): boolean {
    if (this.#isOver) return false
    this.#isOver = true
    Object.assign(this.#response, this.#saved)
    if (this.#on) this.#response.on = this.#on
    this.#options.client?.letResponseGo()
    return true
  }

  #leave(): void {
    const response = this.#response
    if (this.#options.isAnswered) {
      // Those who wait for its end: Node does not know this response.
      response.emit('finish')
      response.emit('close')
      return
    }
    ignoreLaterWrites(response)
    this.#emitUnheard()
  }

  /** Node listens, too: only when it hears that an answer is finished does the next request of the connection have its turn. */
  #emitUnheard(): void {
    const response = this.#response
    for (const event of this.#unheard) response.emit(event)
    if (!this.#toldClosed || this.#unheard.includes('close')) return
    for (const listener of response.rawListeners('close')) if (!this.#toldClosed.has(listener)) listener.call(response)
  }
}
