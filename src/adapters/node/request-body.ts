import type { IncomingMessage } from 'node:http'
import { ByteBlocks } from '../../core/byte-blocks.js'
import type { ArrivingBody } from '../../core/fingerprint/arriving-body.js'
import type { BodyReading, HttpBody } from '../../http/request.js'
import { hasBody, isAborted } from './http-versions.js'
import { toBytes } from './written-bytes.js'

/** Where body parsers leave the bytes, if they are told to keep them, and what they made of them. */
interface Parsed {
  readonly rawBody?: unknown
  readonly body?: unknown
}

/** Reads the whole body of a request, and leaves it there to be read as if for the first time. */
export function readBody(request: IncomingMessage, reading: BodyReading, parser: Parsed = request as Parsed): HttpBody | Promise<HttpBody> {
  const { maxBodyBytes: maxBytes } = reading
  // Some parsers make an object of nothing.
  if (!hasBody(request)) return { bytes: new Uint8Array() }
  // Serverless adapters leave the bytes on the request itself, which is `complete` before anyone has read it.
  const kept = parser.rawBody ?? parser.body ?? (request as Parsed).body
  if (kept instanceof Uint8Array) return sized(kept, maxBytes)
  if (typeof parser.rawBody === 'string') return sized(Buffer.from(parser.rawBody), maxBytes)
  if (request.readableDidRead) return { parsed: parser.body }
  if (request.readableEnded) return { bytes: new Uint8Array() }
  // The client went before we came, and the body with it, arrived or not: Node does not let it be read any more.
  if (isAborted(request)) return { failed: 'incomplete' }
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) return { failed: 'too_large' }
  if (request.complete) return readBuffered(request, maxBytes)
  return readArriving(request, maxBytes, reading.arriving?.(request.headers['content-type'] ?? ''))
}

function sized(bytes: Uint8Array, maxBytes: number): HttpBody {
  return bytes.length > maxBytes ? { failed: 'too_large' } : { bytes }
}

/** All of it is here already, in the stream's own buffer: take it out and put it back, before the stream notices that it is empty. */
function readBuffered(request: IncomingMessage, maxBytes: number): HttpBody {
  if (request.readableLength === 0) return { bytes: new Uint8Array() }
  const read = readQuietly(request)
  request.unshift(read)
  return sized(toBytes(read, request.readableEncoding), maxBytes)
}

/**
 * The parser of the connection pushes what arrives into the request. Here it is held up until it is whole, and then pushed on: nothing
 * was read, so a later reader finds a fresh stream. With `arrived`, it is hashed on the way.
 */
function readArriving(request: IncomingMessage, maxBytes: number, arrived: ArrivingBody | undefined): Promise<HttpBody> {
  return new Promise((resolve) => new Arriving(request, maxBytes, arrived, resolve).begin())
}

/** Where a request has what reads its body while it arrives. */
const arriving = Symbol('oncekey.arriving')

type Reading = IncomingMessage & { [arriving]: Arriving | undefined }

/** The same functions for all requests: see `Overrides`. */
function push(this: Reading, chunk: Buffer | string | null, encoding?: BufferEncoding): boolean {
  return (this[arriving] as Arriving).push(chunk, encoding)
}

function closed(this: Reading): void {
  this[arriving]?.settle({ failed: 'incomplete' })
}

class Arriving {
  readonly #request: IncomingMessage
  readonly #maxBytes: number
  readonly #arrived: ArrivingBody | undefined
  readonly #resolve: (body: HttpBody) => void
  readonly #push: IncomingMessage['push']
  readonly #gathered: ByteBlocks
  /** Another reading, which this one stands in front of. */
  readonly #behind: Arriving | undefined

  constructor(request: IncomingMessage, maxBytes: number, arrived: ArrivingBody | undefined, resolve: (body: HttpBody) => void) {
    this.#request = request
    this.#maxBytes = maxBytes
    this.#arrived = arrived
    this.#resolve = resolve
    this.#behind = (request as Reading)[arriving]
    ;(request as Reading)[arriving] = this
    this.#push = request.push
    this.#gathered = new ByteBlocks((block) => arrived?.add(block))
  }

  begin(): void {
    const request = this.#request
    request.once('close', closed)
    request.push = push as IncomingMessage['push']
    if (request.readableLength > 0) this.take(toBytes(readQuietly(request), request.readableEncoding))
    request.read(0)
  }

  push(chunk: Buffer | string | null, encoding?: BufferEncoding): boolean {
    return chunk === null ? this.passOn() : this.take(toBytes(chunk, encoding))
  }

  take(chunk: Uint8Array): boolean {
    this.#gathered.add(chunk)
    if (this.#gathered.length <= this.#maxBytes) return true
    this.settle({ failed: 'too_large' })
    // It need not be the end of the request: a later reader has it whole.
    return this.#pushAll()
  }

  passOn(): boolean {
    // As one piece unless it is hashed: then it is put together only if it is asked for.
    const body = this.#arrived ? arrivedBody(this.#arrived) : { bytes: this.#gathered.bytes() }
    const isBroken = isAborted(this.#request)
    // HTTP/2 ends a request that its client broke off as if it were whole.
    this.settle(isBroken ? { failed: 'incomplete' } : body)
    this.#pushAll()
    return this.#request.push(null)
  }

  settle(body: HttpBody): void {
    this.#request.off('close', closed)
    this.#request.push = this.#push
    ;(this.#request as Reading)[arriving] = this.#behind
    this.#resolve(body)
  }

  #pushAll(): boolean {
    let hasRoom = true
    for (const block of this.#gathered.blocks()) hasRoom = this.#request.push(block)
    return hasRoom
  }
}

function arrivedBody(arrived: ArrivingBody): HttpBody & { readonly bytes: Uint8Array } {
  return {
    arrived,
    get bytes() {
      return arrived.bytes()
    },
  }
}

/** Not heard by those in front of us who listen to it: they will be told when it is read. */
function readQuietly(request: IncomingMessage): Buffer | string {
  const { emit } = request
  request.emit = unheard
  const pieces: (Buffer | string)[] = []
  // Node 26 gives one piece at a time. Not until there is null: that would be the stream's end.
  while (request.readableLength > 0) pieces.push(request.read())
  request.emit = emit
  return typeof pieces[0] === 'string' ? pieces.join('') : Buffer.concat(pieces as Buffer[])
}

const unheard = () => true
