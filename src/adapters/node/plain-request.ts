import { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import type { RequestDisguise } from './disguise.js'

type Methods = Record<'destroy' | 'emit', (this: never, ...args: never[]) => unknown>

interface Inside extends Methods {
  socket: Socket
}

const inside = (request: IncomingMessage) => request as unknown as Inside

const own = IncomingMessage.prototype
/** Asked once, of one that nobody has touched. */
let socketIsProperty: boolean | undefined

/** Whether nobody has replaced a method of a request: see `isPlainResponse`. */
export function isPlainRequest(request: IncomingMessage): boolean {
  return (
    request.destroy === own.destroy &&
    request.emit === own.emit &&
    !('__onFinished' in request) &&
    request instanceof IncomingMessage &&
    hasProperty()
  )
}

function hasProperty(): boolean {
  socketIsProperty ??= Object.getOwnPropertyDescriptor(new IncomingMessage(new Socket()), 'socket')?.writable === true
  return socketIsProperty
}

/** `Overrides` for a request that is as Node made it: see `PlainResponse`. */
export class PlainRequest implements RequestDisguise {
  readonly #target: Inside
  #socket: Socket
  readonly #shownSocket: Socket

  constructor(request: IncomingMessage, seeming: Socket, methods: Methods) {
    const target = inside(request)
    this.#target = target
    this.#socket = target.socket
    this.#shownSocket = seeming
    target.destroy = methods.destroy
    target.emit = methods.emit
    target.socket = seeming
  }

  original<Name extends keyof IncomingMessage>(name: Name): IncomingMessage[Name] {
    return own[name]
  }

  hideChanges(): void {
    const target = this.#target
    if (target.socket === this.#shownSocket) return
    this.#socket = target.socket
    target.socket = this.#shownSocket
  }

  remove(): void {
    this.hideChanges()
    const target = this.#target
    target.destroy = own.destroy as Methods['destroy']
    target.emit = own.emit as Methods['emit']
    target.socket = this.#socket
  }
}
