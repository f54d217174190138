import type { IncomingMessage, ServerResponse } from 'node:http'
import { type HeldSocket, hideListeners } from './held-socket.js'
import { Overrides } from './overrides.js'

/** A request that stays readable after its client has gone. */
export interface HeldRequest {
  letGo(): void
}

/**
 * Keeps a request readable after its client has gone. Otherwise Node would destroy it, and a body parser behind us would find no body:
 * the handler would run on nothing.
 */
export function holdRequest(request: IncomingMessage, response: ServerResponse, socket: HeldSocket): HeldRequest {
  return new Held(request, response, socket)
}

const held = Symbol('oncekey.held')

type Holding = IncomingMessage & { [held]: Held }

/** The same functions for all requests: see `Overrides`. */
const methods = {
  destroy(this: Holding, error?: Error) {
    return this[held].destroy(error)
  },
  emit(this: Holding, event: string, ...details: unknown[]) {
    return this[held].emit(event, details)
  },
}

class Held implements HeldRequest {
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  readonly #socket: HeldSocket
  readonly #overrides: Overrides<IncomingMessage>
  #destroyed: { error?: Error | undefined } | undefined

  constructor(request: IncomingMessage, response: ServerResponse, socket: HeldSocket) {
    this.#request = request
    this.#response = response
    this.#socket = socket
    ;(request as Holding)[held] = this
    this.#overrides = new Overrides(request)
    this.#overrides.method('destroy', methods.destroy)
    this.#overrides.method('emit', methods.emit)
    this.#overrides.value('socket', socket.seeming)
    hideListeners(this.#overrides)
  }

  destroy(error: Error | undefined): IncomingMessage {
    const request = this.#request
    // It was read to its end, and streams destroy themselves there: whoever waits for that must not wait for us.
    if (request.readableEnded) return this.#overrides.original('destroy').call(request, error)
    if (this.#socket.isDestroyed()) this.#destroyed = { error }
    // Not the client but the handler did it, and on Node that is the end of the connection.
    else this.#response.destroy(error)
    return request
  }

  emit(event: string, details: readonly unknown[]): boolean {
    const request = this.#request
    this.#overrides.hideChanges()
    // HTTP/2 tells it without destroying anything.
    if ((event === 'close' || event === 'aborted') && !request.readableEnded) {
      this.#destroyed ??= {}
      return false
    }
    return this.#overrides.original('emit').call(request, event, ...details)
  }

  letGo(): void {
    this.#overrides.remove()
    if (this.#destroyed) this.#request.destroy(this.#destroyed.error)
  }
}
