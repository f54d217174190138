import { IncomingMessage, OutgoingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import type { Disguise } from './disguise.js'

type Method = (this: never, ...args: never[]) => unknown

type Methods = Record<'writeHead' | 'flushHeaders' | 'write' | 'end' | 'destroy' | 'emit', Method>

/** A response inside: its methods, and what Node keeps in properties of its own. */
interface Inside extends Methods {
  writeHeader: Method
  _header: string | null
  finished: boolean
  destroyed: boolean
  _closed: boolean
  socket: Socket | null
}

const inside = (response: ServerResponse) => response as unknown as Inside
const own = ServerResponse.prototype
const values = ['_header', 'finished', 'destroyed', '_closed', 'socket'] as const
/** Which of them are properties, and which have a getter, differs between versions of Node. Asked once, of one that nobody has touched. */
let allAreProperties: boolean | undefined

/**
 * Whether a response is one of HTTP/1 of which nobody has replaced a method. Nearly all are as Node made them. The rest is for `Overrides`,
 * which can do everything, and takes ten times as long.
 */
export function isPlainResponse(response: ServerResponse): boolean {
  return (
    response.writeHead === own.writeHead &&
    response.end === own.end &&
    response.write === own.write &&
    response.emit === own.emit &&
    response.destroy === own.destroy &&
    response.flushHeaders === own.flushHeaders &&
    inside(response).writeHeader === inside(own).writeHeader &&
    response.on === own.on &&
    !('__onFinished' in response) &&
    response instanceof OutgoingMessage &&
    hasAllProperties()
  )
}

function hasAllProperties(): boolean {
  if (allAreProperties === undefined) {
    const untouched = new ServerResponse(new IncomingMessage(new Socket()))
    allAreProperties = values.every((name) => Object.getOwnPropertyDescriptor(untouched, name)?.writable === true)
  }
  return allAreProperties
}

/**
 * `Overrides` for a response that is as Node made it, with each name spelled out: to look properties up by names that come in a list is
 * what takes the time there. Nothing is deleted, for the same reason as there.
 */
export class PlainResponse implements Disguise<ServerResponse> {
  readonly #target: Inside
  #header: Inside['_header']
  #finished: boolean
  #destroyed: boolean
  #closed: boolean
  #socket: Inside['socket']
  /** What is seen instead. */
  #shownHeader: Inside['_header'] = null
  #shownFinished = false
  readonly #shownSocket: Socket
  /** The head was given back to Node: it is writing. */
  #isWriting = false

  constructor(response: ServerResponse, seeming: Socket, methods: Methods) {
    const target = inside(response)
    this.#target = target
    this.#header = target._header
    this.#finished = target.finished
    this.#destroyed = target.destroyed
    this.#closed = target._closed
    this.#socket = target.socket
    this.#shownSocket = seeming
    assign(target, methods)
    target._header = null
    target.finished = false
    target.destroyed = false
    target._closed = false
    target.socket = seeming
  }

  original<Name extends keyof ServerResponse>(name: Name): ServerResponse[Name] {
    return own[name]
  }

  inherited<Name extends keyof ServerResponse>(name: Name): ServerResponse[Name] {
    return own[name]
  }

  replaced(): undefined {
    return undefined
  }

  /** All others follow from these. */
  show(name: PropertyKey, value: unknown): void {
    if (name === '_header') {
      this.#shownHeader = value as string
      this.#target._header = value as string
    } else if (name === 'finished') {
      this.#shownFinished = value as boolean
      this.#target.finished = value as boolean
    }
  }

  hideChanges(): void {
    const target = this.#target
    if (target.socket !== this.#shownSocket) {
      this.#socket = target.socket
      target.socket = this.#shownSocket
    }
    if (this.#isWriting) return
    if (target._header !== this.#shownHeader) {
      this.#header = target._header
      target._header = this.#shownHeader
    }
    if (target.finished !== this.#shownFinished) {
      this.#finished = target.finished
      target.finished = this.#shownFinished
    }
    if (target.destroyed) {
      this.#destroyed = true
      target.destroyed = false
    }
    if (target._closed) {
      this.#closed = true
      target._closed = false
    }
  }

  /** With any names: those that Node needs to write. */
  remove(names?: readonly PropertyKey[]): void {
    this.hideChanges()
    if (!this.#isWriting) this.#giveHeadBack()
    if (names) return
    const target = this.#target
    const { write, end, destroy, emit } = inside(own)
    target.write = write
    target.end = end
    target.destroy = destroy
    target.emit = emit
    target.socket = this.#socket
    // A handler ends an answer that is on its way already: see `show()`.
    target.finished = this.#finished
  }

  #giveHeadBack(): void {
    const target = this.#target
    const { writeHead, writeHeader, flushHeaders } = inside(own)
    this.#isWriting = true
    target.writeHead = writeHead
    target.writeHeader = writeHeader
    target.flushHeaders = flushHeaders
    target._header = this.#header
    target.finished = this.#finished
    target.destroyed = this.#destroyed
    target._closed = this.#closed
  }
}

function assign(target: Inside, methods: Methods): void {
  target.writeHead = methods.writeHead
  target.writeHeader = methods.writeHead
  target.flushHeaders = methods.flushHeaders
  target.write = methods.write
  target.end = methods.end
  target.destroy = methods.destroy
  target.emit = methods.emit
}
