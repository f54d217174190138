import { IncomingMessage } from 'node:http'
import { ByteBlocks } from '../../core/byte-blocks.js'
import type { HttpBody } from '../../http/request.js'
import { toBytes } from './written-bytes.js'

const tapped = Symbol('oncekey.tapped')

type Tapped = IncomingMessage & { [tapped]: TappedBody }

/** The same function for all requests: see `Overrides`. */
function push(this: Tapped, chunk: Buffer | string | null, encoding?: BufferEncoding): boolean {
  return chunk === null ? this[tapped].finish() : this[tapped].take(toBytes(chunk, encoding))
}

const own = IncomingMessage.prototype

/**
 * The bytes of a body that a parser behind us reads in any case before we need them. What the parser of the connection pushes into the
 * request is kept on its way, and nothing is held up: what Node and the framework do with it takes no longer than without us.
 */
export class TappedBody {
  readonly #request: IncomingMessage
  readonly #maxBytes: number
  #gathered = new ByteBlocks()
  #size = 0
  #isWhole = false
  /** Pieces that are held up: see `#rest()`. */
  #late: Uint8Array[] | undefined
  #resolve: (body: HttpBody) => void = () => {}
  readonly #broken = () => this.#resolve({ failed: 'incomplete' })

  private constructor(request: IncomingMessage, maxBytes: number) {
    this.#request = request
    this.#maxBytes = maxBytes
  }

  /** Undefined for a request of which something has arrived already, or that is not as Node made it. */
  static of(request: IncomingMessage, maxBytes: number): TappedBody | undefined {
    // HTTP/2 ends a request that its client broke off as if it were whole.
    if (!(request instanceof IncomingMessage)) return undefined
    const isUntouched = request.push === own.push && !request.complete && request.readableLength === 0 && !request.readableDidRead
    if (!isUntouched || request.destroyed || request.readableEncoding !== null || Number(request.headers['content-length']) > maxBytes) {
      return undefined
    }
    const body = new TappedBody(request, maxBytes)
    ;(request as Tapped)[tapped] = body
    request.push = push as IncomingMessage['push']
    return body
  }

  /** At once, if it was read; undefined if reading has not begun. */
  body(): HttpBody | Promise<HttpBody> | undefined {
    if (this.#isWhole) return this.#body()
    if (this.#request.readableDidRead) return this.#rest()
    this.#end()
    return undefined
  }

  take(chunk: Uint8Array): boolean {
    this.#size += chunk.length
    const isTooLarge = this.#size > this.#maxBytes
    if (isTooLarge) this.#gathered = new ByteBlocks()
    else this.#gathered.add(chunk)
    if (!this.#late) return own.push.call(this.#request, chunk)
    this.#late.push(chunk)
    return isTooLarge ? this.#settle() : true
  }

  finish(): boolean {
    this.#isWhole = true
    this.#settle()
    return own.push.call(this.#request, null)
  }

  /**
   * A parser reads it, and has let the request continue before its end. It may be waiting for the handler, so that nothing more would
   * arrive: from now on it is kept back until it is whole, or too large.
   */
  #rest(): Promise<HttpBody> {
    const request = this.#request
    this.#late = []
    return new Promise((resolve) => {
      this.#resolve = resolve
      if (request.destroyed) this.#broken()
      else request.once('close', this.#broken)
      // Node has stopped reading from the connection if what was there was not taken.
      request._read(0)
    })
  }

  /** What was held up goes to its reader. */
  #settle(): boolean {
    const late = this.#late
    this.#end()
    this.#late = undefined
    let hasRoom = true
    for (const piece of late ?? []) hasRoom = own.push.call(this.#request, piece)
    if (late) this.#request.off('close', this.#broken)
    this.#resolve(this.#body())
    return hasRoom
  }

  #end(): void {
    this.#request.push = own.push
  }

  #body(): HttpBody {
    if (this.#size > this.#maxBytes) return { failed: 'too_large' }
    return { bytes: this.#gathered.bytes() }
  }
}
