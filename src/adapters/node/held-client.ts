import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { isHttp2 } from './http-versions.js'

/** Events of a connection that would tell a handler that its client has gone. */
const hidden = new Set<unknown>(['close', 'end', 'error', 'finish'])
const adding = new Set<PropertyKey>(['on', 'once', 'addListener', 'prependListener', 'prependOnceListener'])
const removing = new Set<PropertyKey>(['off', 'removeListener'])
const destroying = new Set<PropertyKey>(['destroy', 'destroySoon', 'resetAndDestroy'])
/** A held response sends nothing, and another response may be using the connection. */
const corking = new Set<PropertyKey>(['cork', 'uncork'])
const nothing = () => {}

type Listener = (...args: unknown[]) => void

const client = Symbol('oncekey.client')

type Holding<Target> = Target & { [client]: HeldClient; __onFinished?: unknown }

/** Shared by all requests. */
const requestMethods = {
  destroy(this: Holding<IncomingMessage>, error?: Error) {
    return this[client].destroy(error)
  },
  emit(this: Holding<IncomingMessage>, event: string, ...details: unknown[]) {
    return this[client].emit(event, details)
  },
}

/** Shared by all responses. It stays: from `letResponseGo()` on it shows the real connection. */
const responseSocket: PropertyDescriptor & ThisType<Holding<ServerResponse>> = {
  configurable: true,
  enumerable: true,
  get() {
    return this[client].responseSocket
  },
  set(socket: Socket | null) {
    this[client].responseSocket = socket
  },
}

/**
 * Hides from a handler that its client has gone, so that its work goes on. Body parsers, on-finished, Koa and `stream.pipeline()` ask the request,
 * the response and their socket whether the client is still there, and stop if it is not.
 */
export class HeldClient implements ProxyHandler<Socket> {
  readonly #request: Holding<IncomingMessage>
  readonly #response: Holding<ServerResponse>
  #saved: Pick<IncomingMessage, 'destroy' | 'emit'> | undefined
  /** That Node destroyed the request. */
  #destroyed: { error?: Error | undefined } | undefined
  /** What the handler sees of the connection. Destroying it destroys the response. */
  #seeming: Socket | undefined
  #isHeld = true
  #isResponseHeld = false
  /** The own property `socket` of a response, as on Node 20. */
  #own: PropertyDescriptor | undefined
  #lists: [object, unknown][] = []
  #waiting: { event: string; listener: Listener }[] | undefined

  constructor(request: IncomingMessage, response: ServerResponse) {
    this.#request = request as Holding<IncomingMessage>
    this.#response = response as Holding<ServerResponse>
  }

  /** Keeps a request readable. Otherwise Node destroys it, and a body parser leaves the handler without a body. */
  holdRequest(): void {
    if (this.#saved) return
    const request = this.#request
    const { destroy, emit } = request
    this.#saved = { destroy, emit }
    request[client] = this
    request.destroy = requestMethods.destroy as never
    // HTTP/1 emits its end only when the request is destroyed.
    if (isHttp2(request)) request.emit = requestMethods.emit
    this.#hideListeners(request)
  }

  /** Replaces the sockets of both, when the handler begins. */
  holdSockets(): void {
    const request = this.#request
    const response = this.#response
    const real = request.socket ?? {}
    const seeming = new Proxy(real, this)
    this.#seeming = seeming
    if (isHttp2(request)) Object.defineProperty(request, 'socket', { value: seeming, configurable: true })
    else request.socket = seeming
    this.#own = Object.getOwnPropertyDescriptor(response, 'socket')
    this.#isResponseHeld = true
    response[client] = this
    // On Node 20 it is a plain property, which an accessor would make the response a dictionary for.
    if (this.#own?.writable && response.socket) (response as { socket: Socket }).socket = seeming
    else Object.defineProperty(response, 'socket', responseSocket)
    this.#hideListeners(response)
    this.#real = real
  }

  #real: Socket | undefined

  get responseSocket(): Socket | null {
    if (this.#isResponseHeld) return this.#seeming as Socket
    if (!this.#own) return Reflect.get(Object.getPrototypeOf(this.#response), 'socket', this.#response)
    return this.#own.get ? this.#own.get.call(this.#response) : this.#own.value
  }

  set responseSocket(socket: Socket | null) {
    if (!this.#own) Reflect.set(Object.getPrototypeOf(this.#response), 'socket', socket, this.#response)
    else if (this.#own.set) this.#own.set.call(this.#response, socket)
    else this.#own.value = socket
  }

  /** On-finished asks the socket for the first listener only, so listeners behind us would be told with those in front. */
  #hideListeners(target: Holding<object>): void {
    if (!Object.hasOwn(target, '__onFinished')) return
    this.#lists.push([target, target.__onFinished])
    target.__onFinished = null
  }

  letResponseGo(): void {
    if (!this.#isResponseHeld) return
    this.#isResponseHeld = false
    const response = this.#response
    // A plain property, see above.
    if (this.#own?.writable && Object.getOwnPropertyDescriptor(response, 'socket')?.writable) {
      ;(response as { socket: unknown }).socket = this.#own.value
    }
    if (!this.#waiting) return
    if (response.closed) this.#tellClosed()
    else response.once('close', () => this.#tellClosed())
  }

  letGo(): void {
    this.#isHeld = false
    this.letResponseGo()
    for (const [target, list] of this.#lists) (target as Holding<object>).__onFinished = list
    if (!this.#saved) return
    const request = this.#request
    request.destroy = this.#saved.destroy as never
    if (isHttp2(request)) {
      request.emit = this.#saved.emit
      delete (request as { socket?: Socket }).socket
    } else if (this.#real) request.socket = this.#real
    this.#saved = undefined
    if (this.#destroyed) request.destroy(this.#destroyed.error)
  }

  destroy(error: Error | undefined): IncomingMessage {
    const request = this.#request
    const { destroy } = this.#saved ?? Object.getPrototypeOf(request)
    // A stream destroys itself at its end.
    if (!this.#isHeld || request.readableEnded) return destroy.call(request, error)
    if ((this.#real ?? request.socket)?.destroyed) this.#destroyed = { error }
    // The handler did it, and on Node that ends the connection.
    else this.#response.destroy(error)
    return request
  }

  emit(event: string, details: readonly unknown[]): boolean {
    const request = this.#request
    if (this.#isHeld && (event === 'close' || event === 'aborted') && !request.readableEnded) {
      this.#destroyed ??= {}
      return false
    }
    const { emit } = this.#saved ?? Object.getPrototypeOf(request)
    return emit.call(request, event, ...details)
  }

  /** The rest is the proxy's. */
  get(target: Socket, name: PropertyKey): unknown {
    const isHeld = this.#isHeld
    if (isHeld && (name === 'readable' || name === 'writable')) return true
    if (isHeld && name === 'destroyed') return false
    // Node takes a response for finished when nothing is left to write.
    if (isHeld && name === 'writableLength') return Math.max(1, target.writableLength || 0)
    const value: unknown = Reflect.get(target, name, target)
    if (typeof value !== 'function') return value
    if (isHeld && corking.has(name)) return nothing
    if (isHeld && destroying.has(name)) return (error?: Error) => this.#response.destroy(error) && this.#seeming
    const method = value.bind(target)
    if (adding.has(name)) return (event: string, listener: Listener) => this.#listen(event, listener, method)
    if (removing.has(name)) return (event: string, listener: Listener) => this.#unlisten(event, listener, method)
    return method
  }

  set(target: Socket, name: PropertyKey, value: unknown): boolean {
    return Reflect.set(target, name, value, target)
  }

  #listen(event: string, listener: Listener, add: Socket['on']): Socket {
    if (this.#isHeld && hidden.has(event)) {
      this.#waiting ??= []
      this.#waiting.push({ event, listener })
    } else add(event, listener)
    return this.#seeming as Socket
  }

  #unlisten(event: string, listener: Listener, remove: Socket['off']): Socket {
    this.#waiting = this.#waiting?.filter((other) => other.event !== event || other.listener !== listener)
    remove(event, listener)
    return this.#seeming as Socket
  }

  #tellClosed(): void {
    const listeners = this.#waiting?.filter(({ event }) => event === 'close') ?? []
    this.#waiting = undefined
    for (const { listener } of listeners) listener.call(this.#real, false)
  }
}
