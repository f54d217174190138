/** A body, piece by piece. No piece is empty: where the last one is held back, it must be one that its client waits for. */
export interface Pieces {
  /** Undefined at the end. Throws what the stream fails with, and the reason once it was dropped. */
  next(): Promise<Uint8Array<ArrayBuffer> | undefined>
  /** Nobody wants the rest: its source may stop. */
  drop(reason: unknown): void
}

export function piecesOf(body: ReadableStream<unknown> | null): Pieces {
  const reader = body?.getReader()
  let dropped: { reason: unknown } | undefined
  return { next, drop }

  async function next() {
    for (;;) {
      const { done, value } = reader ? await reader.read() : { done: true, value: undefined }
      // A dropped stream ends, but that is not the end of its answer.
      if (dropped) throw dropped.reason
      if (done) return undefined
      const piece = bytesOf(value)
      if (!piece) drop(new TypeError(`The stream of a body is made of bytes, and this one gave a ${typeof value}.`))
      else if (piece.length > 0) return piece
    }
  }

  function drop(reason: unknown) {
    dropped ??= { reason }
    reader?.cancel(reason).catch(() => {})
  }
}

export function joined(pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(pieces.reduce((size, { length }) => size + length, 0))
  let at = 0
  for (const piece of pieces) {
    whole.set(piece, at)
    at += piece.length
  }
  return whole
}

/** The standard knows bytes only, but servers send texts too, and the work is done by now. */
function bytesOf(chunk: unknown): Uint8Array<ArrayBuffer> | undefined {
  if (chunk instanceof Uint8Array) return chunk as Uint8Array<ArrayBuffer>
  if (typeof chunk === 'string') return new TextEncoder().encode(chunk)
  if (chunk instanceof ArrayBuffer) return new Uint8Array(chunk)
  if (ArrayBuffer.isView(chunk)) return new Uint8Array(chunk.buffer as ArrayBuffer, chunk.byteOffset, chunk.byteLength)
  return undefined
}
