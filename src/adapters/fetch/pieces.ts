import { ByteBlocks } from '../../core/byte-blocks.js'

/** How long a stream whose pieces are all there may be read before others have their turn. */
const sliceMs = 20
/** Looking at the clock takes longer than reading a small piece. */
const piecesPerLook = 64

/** A body, piece by piece. No piece is empty: where the last one is held back, it must be one that its client waits for. */
export class Pieces {
  readonly #reader: ReadableStreamDefaultReader<unknown> | undefined
  #dropped: { readonly reason: unknown } | undefined
  #read = 0
  #since = performance.now()

  /** Throws if somebody else reads it. */
  constructor(body: ReadableStream<unknown> | null) {
    this.#reader = body?.getReader()
  }

  /** Undefined at the end. Throws what the stream fails with, and the reason once it was dropped. */
  async next(): Promise<Uint8Array | undefined> {
    for (;;) {
      this.#read += 1
      if (this.#read % piecesPerLook === 0) await this.#takeTurns()
      const { done, value } = this.#reader ? await this.#reader.read() : { done: true, value: undefined }
      // A dropped stream ends, but that is not the end of its answer.
      if (this.#dropped) throw this.#dropped.reason
      if (done) return undefined
      const piece = bytesOf(value)
      if (!piece) this.drop(new TypeError(`A body stream must consist of bytes or strings, got a chunk of type ${typeof value}.`))
      else if (piece.length > 0) return piece
    }
  }

  /** Reads until the end, or until there are more than `maxBytes`; `over` is the piece that is too much. */
  async gather(maxBytes: number): Promise<{ readonly blocks: ByteBlocks; readonly over: Uint8Array | undefined }> {
    const blocks = new ByteBlocks()
    for (;;) {
      const piece = await this.next()
      if (!piece || blocks.length + piece.length > maxBytes) return { blocks, over: piece }
      blocks.add(piece)
    }
  }

  /** The source may stop: the rest is not needed. */
  drop(reason: unknown): void {
    this.#dropped ??= { reason }
    this.#reader?.cancel(reason).catch(() => {})
  }

  /** The source goes on; somebody else may read the rest. */
  release(): void {
    this.#reader?.releaseLock()
  }

  async #takeTurns(): Promise<void> {
    if (performance.now() - this.#since < sliceMs) return
    await new Promise<void>((resolve) => void setImmediate(resolve))
    this.#since = performance.now()
  }
}

/** The standard allows bytes only, but servers send strings too, and the work is done by now. */
function bytesOf(chunk: unknown): Uint8Array | undefined {
  if (chunk instanceof Uint8Array) return chunk
  if (typeof chunk === 'string') return new TextEncoder().encode(chunk)
  if (chunk instanceof ArrayBuffer) return new Uint8Array(chunk)
  if (ArrayBuffer.isView(chunk)) return new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength)
  return undefined
}
