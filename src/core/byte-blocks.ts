/** At most what Node reads from a connection at once. */
const blockBytes = 16 * 1024

/**
 * Bytes that arrive in pieces. Small pieces are copied into blocks: a client that sends 10 MB byte by byte would otherwise leave ten million
 * objects of a hundred bytes. Callers must not change a piece once it is added.
 */
export class ByteBlocks {
  readonly #blocks: Uint8Array[] = []
  /** Collects small pieces; the first `#filled` bytes are used. */
  #open: Uint8Array | undefined
  #filled = 0
  #length = 0
  readonly #each: (block: Uint8Array) => void

  constructor(each: (block: Uint8Array) => void = () => {}) {
    this.#each = each
  }

  get length(): number {
    return this.#length
  }

  add(piece: Uint8Array): void {
    if (piece.length === 0) return
    this.#length += piece.length
    // Most bodies are a single piece: keep it as it is.
    if (piece.length >= blockBytes || this.#length === piece.length) {
      this.#close()
      this.#push(piece)
      return
    }
    let rest = piece
    while (rest.length > 0) {
      this.#open ??= new Uint8Array(blockBytes)
      const fits = rest.subarray(0, blockBytes - this.#filled)
      this.#open.set(fits, this.#filled)
      this.#filled += fits.length
      if (this.#filled === blockBytes) this.#close()
      rest = rest.subarray(fits.length)
    }
  }

  /** The blocks so far, in order. */
  blocks(): readonly Uint8Array[] {
    this.#close()
    return this.#blocks
  }

  /** One block, which replaces the others. */
  bytes(): Uint8Array {
    const blocks = this.blocks()
    if (blocks.length === 1) return blocks[0] as Uint8Array
    const whole = new Uint8Array(this.#length)
    let at = 0
    for (const block of blocks) {
      whole.set(block, at)
      at += block.length
    }
    this.#blocks.splice(0, blocks.length, whole)
    return whole
  }

  #close(): void {
    if (this.#open && this.#filled > 0) this.#push(this.#open.subarray(0, this.#filled))
    this.#open = undefined
    this.#filled = 0
  }

  #push(block: Uint8Array): void {
    this.#blocks.push(block)
    this.#each(block)
  }
}
