import { ByteBlocks } from '../byte-blocks.js'

interface Hash {
  update(block: Uint8Array): unknown
  digest(encoding: 'binary'): string
}

/** A body that is hashed while it arrives, so that a large one does not hold up the process when it is whole. */
export class ArrivingBody {
  readonly #hash: Hash
  readonly #gathered: ByteBlocks
  #digest: string | undefined

  /** `by`: what the hash was made with, by which a fingerprinter knows whether it is of use. */
  constructor(
    readonly by: object,
    hash: Hash,
  ) {
    this.#hash = hash
    this.#gathered = new ByteBlocks((block) => hash.update(block))
  }

  /** The piece must not change any more. */
  add(piece: Uint8Array): void {
    this.#gathered.add(piece)
  }

  get length(): number {
    return this.#gathered.length
  }

  bytes(): Uint8Array {
    return this.#gathered.bytes()
  }

  /** Of what has arrived, with a character for each byte; nothing may follow it. */
  digest(): string {
    this.#gathered.blocks()
    this.#digest ??= this.#hash.digest('binary')
    return this.#digest
  }
}
