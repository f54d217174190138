import type { Context } from 'koa'
import { isBodiless } from '../node/written-bytes.js'

/**
 * The body that is on the context, as the bytes that Koa would send. Undefined if there is none: then what goes out is for Koa, or for those
 * in front of us, to say. A stream that fails before it is over the cap is an error like any other: nothing has been sent.
 */
export function contextBody(ctx: Context, maxBytes: number): Buffer | Promise<Buffer | AsyncIterable<Uint8Array>> | undefined {
  const { body } = ctx
  if (isBodiless(ctx.status)) return Buffer.alloc(0)
  if (body === undefined || body === null) return undefined
  if (Buffer.isBuffer(body)) return body
  if (typeof body === 'string') return Buffer.from(body)
  const stream = streamOf(body)
  return stream ? upTo(maxBytes, stream) : Buffer.from(JSON.stringify(body))
}

export const isStream = (body: unknown) => body !== undefined && body !== null && streamOf(body) !== undefined

type Stream = AsyncIterable<Uint8Array | string>

/** Everything that Koa sends as a stream. */
function streamOf(body: unknown): Stream | undefined {
  if (body instanceof Response) return (body.body ?? new Blob([]).stream()) as unknown as Stream
  if (body instanceof Blob) return body.stream() as unknown as Stream
  if (body instanceof ReadableStream) return body as unknown as Stream
  return typeof (body as { pipe?: unknown }).pipe === 'function' ? (body as Stream) : undefined
}

/** All of it, or, once that is too much, a stream of the same. */
async function upTo(maxBytes: number, stream: Stream): Promise<Buffer | AsyncIterable<Uint8Array>> {
  const iterator = stream[Symbol.asyncIterator]()
  const pieces: Uint8Array[] = []
  let size = 0
  while (size <= maxBytes) {
    const { done, value } = await iterator.next()
    if (done) return Buffer.concat(pieces)
    const piece = typeof value === 'string' ? Buffer.from(value) : value
    pieces.push(piece)
    size += piece.length
  }
  return (async function* () {
    yield* pieces
    for (;;) {
      const { done, value } = await iterator.next()
      if (done) return
      yield typeof value === 'string' ? Buffer.from(value) : value
    }
  })()
}
