/**
 * A body that is hashed while it arrives, piece by piece, so that a large one does not hold up the process when it is whole. Its
 * pieces stay as they came; they are put together only if somebody needs all of them at once.
 */
export class ArrivingBody {
  readonly #hash: { update(piece: Uint8Array): unknown; digest(encoding: 'binary'): string }
  readonly #pieces: Uint8Array[] = []
  #length = 0
  #digest: string | undefined

  /** `by`: what the hash was made with, by which a fingerprinter knows whether it is of use. */
  constructor(
    readonly by: object,
    hash: { update(piece: Uint8Array): unknown; digest(encoding: 'binary'): string },
  ) {
    this.#hash = hash
  }

  /** Nobody may change it any more. */
  add(piece: Uint8Array): void {
    this.#hash.update(piece)
    this.#pieces.push(piece)
    this.#length += piece.length
  }

  get length(): number {
    return this.#length
  }

  bytes(): Uint8Array {
    return Buffer.concat(this.#pieces)
  }

  /** Of what has arrived, with a character for each byte; nothing may follow it. */
  digest(): string {
    this.#digest ??= this.#hash.digest('binary')
    return this.#digest
  }
}
