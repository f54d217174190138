import type { IncomingMessage } from 'node:http'
import type { HttpBody } from '../../http/request.js'
import { Overrides } from './overrides.js'

/** Where body parsers leave the bytes, if they are told to keep them, and what they made of them. */
interface Parsed {
  readonly rawBody?: unknown
  readonly body?: unknown
}

/** Reads the whole body of a request, and leaves it there to be read again as if nobody had. */
export async function readBody(request: IncomingMessage, maxBytes: number, parser: Parsed = request as Parsed): Promise<HttpBody> {
  const kept = parser.rawBody ?? parser.body
  if (kept instanceof Uint8Array) return sized(kept, maxBytes)
  if (typeof parser.rawBody === 'string') return sized(Buffer.from(parser.rawBody), maxBytes)
  if (request.readableDidRead || request.readableEnded) return { parsed: parser.body }
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) return { failed: 'too_large' }
  return request.complete ? readBuffered(request, maxBytes) : readArriving(request, maxBytes)
}

function sized(bytes: Uint8Array, maxBytes: number): HttpBody {
  return bytes.length > maxBytes ? { failed: 'too_large' } : { bytes }
}

/** All of it is here already, in the stream's own buffer: take it out and put it back, before the stream notices that it is empty. */
function readBuffered(request: IncomingMessage, maxBytes: number): HttpBody {
  if (request.readableLength === 0) return { bytes: new Uint8Array() }
  const bytes = request.read() as Buffer
  request.unshift(bytes)
  return sized(bytes, maxBytes)
}

/**
 * The parser of the connection pushes what arrives into the request. Here it is held up until it is whole, and then pushed on in one
 * piece: nothing was read, so whoever comes later finds a fresh stream.
 */
function readArriving(request: IncomingMessage, maxBytes: number): Promise<HttpBody> {
  return new Promise((resolve) => {
    const overrides = new Overrides(request)
    const pieces: Buffer[] = []
    let size = 0
    const settle = (body: HttpBody) => {
      request.off('close', incomplete)
      overrides.remove()
      resolve(body)
    }
    const incomplete = () => settle({ failed: 'incomplete' })
    request.once('close', incomplete)

    if (request.readableLength > 0) take(request.read() as Buffer)
    overrides.method('push', (chunk: Buffer | null, encoding?: BufferEncoding) => {
      if (chunk === null) return passOn()
      return take(typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk)
    })
    request.read(0)

    function take(chunk: Buffer): boolean {
      pieces.push(chunk)
      size += chunk.length
      // Node reads the rest of it and throws it away once the answer is out.
      if (size > maxBytes) settle({ failed: 'too_large' })
      return true
    }

    function passOn(): boolean {
      const bytes = Buffer.concat(pieces)
      settle({ bytes })
      if (bytes.length > 0) request.push(bytes)
      return request.push(null)
    }
  })
}
