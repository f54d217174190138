export type Chunk = Uint8Array | string
export type Callback = (error?: Error | null) => void

/** What a handler wrote, as bytes. Throws for what Node does not take either. */
export function bytesOf(chunk: unknown, encoding: unknown): Uint8Array {
  if (typeof chunk === 'string') return Buffer.from(chunk, typeof encoding === 'string' ? (encoding as BufferEncoding) : 'utf8')
  if (chunk instanceof Uint8Array) return chunk
  const message = `The body of a response is made of strings, Buffers and Uint8Arrays, not of ${chunk === null ? 'null' : typeof chunk}.`
  throw Object.assign(new TypeError(message), { code: 'ERR_INVALID_ARG_TYPE' })
}

const bodiless = new Set([204, 205, 304])

/** Node sends no body with these, whatever a handler writes. */
export const isBodiless = (status: number) => bodiless.has(status)

/** Middleware in front may have chosen to read it as text. */
export function toBytes(read: Buffer | string, encoding?: BufferEncoding | null): Uint8Array {
  return typeof read === 'string' ? Buffer.from(read, encoding ?? 'utf8') : read
}
