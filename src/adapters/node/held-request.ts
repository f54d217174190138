import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { RequestDisguise } from './disguise.js'
import { type HeldSocket, hideListeners } from './held-socket.js'
import { Overrides } from './overrides.js'
import { isPlainRequest, PlainRequest } from './plain-request.js'

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

function overridden(request: IncomingMessage, seeming: Socket): Overrides<IncomingMessage> {
  const overrides = new Overrides(request)
  overrides.method('destroy', methods.destroy)
  overrides.method('emit', methods.emit)
  overrides.value('socket', seeming)
  hideListeners(overrides)
  return overrides
}

class Held implements HeldRequest {
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  readonly #socket: HeldSocket
  readonly #disguise: RequestDisguise
  #destroyed: { error?: Error | undefined } | undefined

  constructor(request: IncomingMessage, response: ServerResponse, socket: HeldSocket) {
    this.#request = request
    this.#response = response
    this.#socket = socket
    ;(request as Holding)[held] = this
    this.#disguise = isPlainRequest(request) ? new PlainRequest(request, socket.seeming, methods) : overridden(request, socket.seeming)
  }

  destroy(error: Error | undefined): IncomingMessage {
    const request = this.#request
    // It was read to its end, and streams destroy themselves there: whoever waits for that must not wait for us.
    if (request.readableEnded) return this.#disguise.original('destroy').call(request, error)
    if (this.#socket.isDestroyed()) this.#destroyed = { error }
    // Not the client but the handler did it, and on Node that is the end of the connection.
    else this.#response.destroy(error)
    return request
  }

  emit(event: string, details: readonly unknown[]): boolean {
    const request = this.#request
    this.#disguise.hideChanges()
    // HTTP/2 tells it without destroying anything.
    if ((event === 'close' || event === 'aborted') && !request.readableEnded) {
      this.#destroyed ??= {}
      return false
    }
    return this.#disguise.original('emit').call(request, event, ...details)
  }

  letGo(): void {
    this.#disguise.remove()
    if (this.#destroyed) this.#request.destroy(this.#destroyed.error)
  }
}
