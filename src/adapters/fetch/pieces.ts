import { ByteBlocks } from '../../core/byte-blocks.js'

/**
 * How many pieces that are there already are read before others have their turn: 25 to 90 ms if they are of one byte. More than a server makes of what it reads from a
 * connection at once (64 KiB: 11,000 chunks of one byte): while others have their turn more arrives, and Node 20 takes 15 µs for each piece of
 * a long queue.
 */
const piecesPerTurn = 12_000

/** A body, piece by piece. No piece is empty: where the last one is held back, it must be one that its client waits for. */
export class Pieces {
  readonly #reader: ReadableStreamDefaultReader<unknown> | undefined
  #dropped: { readonly reason: unknown } | undefined
  #readInTurn = 0
  readonly #newTurn = () => {
    this.#readInTurn = 0
  }

  /** Throws if it is being read already. */
  constructor(body: ReadableStream<unknown> | null) {
    this.#reader = body?.getReader()
  }

  /** Undefined at the end. Throws what the stream fails with, and the reason once it was dropped. */
  async next(): Promise<Uint8Array | undefined> {
    for (;;) {
      // A tick comes once all pieces that are there have been read.
      if (this.#readInTurn === 0) process.nextTick(this.#newTurn)
      this.#readInTurn += 1
      if (this.#readInTurn > piecesPerTurn) await new Promise<void>((resolve) => void setImmediate(resolve))
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

  /** The source goes on; another reader may have the rest. */
  release(): void {
    this.#reader?.releaseLock()
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
