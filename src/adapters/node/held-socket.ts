import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Overrides } from './overrides.js'

/** A connection as a handler sees it to which its client must not matter. */
export interface HeldSocket {
  /** Stands in for the socket. It looks open whatever the client does, and whoever destroys it destroys the exchange. */
  readonly seeming: Socket
  isDestroyed(): boolean
  /** The exchange is over: from now on it is what it seems. */
  letGo(): void
  /** Tells those who waited for the end of the connection, when that of the response is told. */
  tellWhenClosed(response: ServerResponse): void
}

/** What would tell a handler that its client has gone. */
const hidden = new Set<unknown>(['close', 'end', 'error', 'finish'])
const adding = new Set<PropertyKey>(['on', 'once', 'addListener', 'prependListener', 'prependOnceListener'])
const removing = new Set<PropertyKey>(['off', 'removeListener'])
const destroying = new Set<PropertyKey>(['destroy', 'destroySoon', 'resetAndDestroy'])

/** There is nothing to hold together, and a socket may be in use for another answer. */
const corking = new Set<PropertyKey>(['cork', 'uncork'])
const nothing = () => {}

/** Where on-finished keeps its listeners. */
const onFinishedList = '__onFinished'

/**
 * On-finished looks at the socket for the first of its listeners only, so those of middleware behind us would be told with those in front of
 * us: each side gets a list of its own.
 */
export function hideListeners(overrides: Overrides<object>): void {
  if (Object.hasOwn(overrides.target, onFinishedList)) overrides.property(onFinishedList, null)
}

type Listener = (...args: unknown[]) => void

/**
 * Body parsers and on-finished ask the socket whether anybody is still there, and a framework that cannot answer any more destroys it.
 * The first must not stop work that has begun; the second is the handler's own word, and must not be lost.
 */
export function holdSocket(socket: Socket, response: ServerResponse): HeldSocket {
  return new Held(socket, response)
}

/** The handler of the proxy, too. */
class Held implements HeldSocket, ProxyHandler<Socket> {
  readonly seeming: Socket
  readonly #socket: Socket
  readonly #response: ServerResponse
  #waiting: { event: string; listener: Listener }[] | undefined
  #isHeld = true

  constructor(socket: Socket, response: ServerResponse) {
    this.#socket = socket
    this.#response = response
    this.seeming = new Proxy(socket, this)
  }

  get(target: Socket, name: PropertyKey): unknown {
    const isHeld = this.#isHeld
    if (isHeld && (name === 'readable' || name === 'writable')) return true
    if (isHeld && name === 'destroyed') return false
    // What was written to the response has not left, and by this Node tells.
    if (isHeld && name === 'writableLength') return Math.max(1, target.writableLength || 0)
    const value: unknown = Reflect.get(target, name, target)
    if (typeof value !== 'function') return value
    if (isHeld && corking.has(name)) return nothing
    if (isHeld && destroying.has(name)) return (error?: Error) => this.#destroy(error)
    const method = value.bind(target)
    if (adding.has(name)) return (event: string, listener: Listener) => this.#listen(event, listener, method)
    if (removing.has(name)) return (event: string, listener: Listener) => this.#unlisten(event, listener, method)
    return method
  }

  set(target: Socket, name: PropertyKey, value: unknown): boolean {
    return Reflect.set(target, name, value, target)
  }

  isDestroyed(): boolean {
    return this.#socket.destroyed
  }

  letGo(): void {
    this.#isHeld = false
  }

  tellWhenClosed(response: ServerResponse): void {
    // From now on nobody comes to wait here.
    if (!this.#waiting) return
    if (response.closed) this.#tellClosed()
    else response.once('close', () => this.#tellClosed())
  }

  #tellClosed(): void {
    const listeners = this.#waiting?.filter(({ event }) => event === 'close') ?? []
    this.#waiting = undefined
    for (const { listener } of listeners) listener.call(this.#socket, false)
  }

  #destroy(error: Error | undefined): Socket {
    this.#response.destroy(error)
    return this.seeming
  }

  #listen(event: string, listener: Listener, add: Socket['on']): Socket {
    if (this.#isHeld && hidden.has(event)) {
      this.#waiting ??= []
      this.#waiting.push({ event, listener })
    } else add(event, listener)
    return this.seeming
  }

  #unlisten(event: string, listener: Listener, remove: Socket['off']): Socket {
    this.#waiting = this.#waiting?.filter((other) => other.event !== event || other.listener !== listener)
    remove(event, listener)
    return this.seeming
  }
}
