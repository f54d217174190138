import { ByteBlocks } from '../byte-blocks.js'

interface Hash {
  update(block: Uint8Array): unknown
  digest(encoding: 'binary'): string
}

/** A body that is hashed as it arrives, so that a large one does not block the process at its end. */
export class ArrivingBody {
  readonly #hash: Hash
  readonly #gathered: ByteBlocks
  #digest: string | undefined

  /** `by`: the settings of the hash, by which a fingerprinter knows whether it can use it. */
  constructor(
    readonly by: object,
    hash: Hash,
  ) {
    this.#hash = hash
    this.#gathered = new ByteBlocks((block) => hash.update(block))
  }

  /** The caller must not change the piece afterwards. */
  add(piece: Uint8Array): void {
    this.#gathered.add(piece)
  }

  get length(): number {
    return this.#gathered.length
  }

  bytes(): Uint8Array {
    return this.#gathered.bytes()
  }

  /** The digest so far, one character per byte; nothing may be added after it. */
  digest(): string {
    this.#gathered.blocks()
    this.#digest ??= this.#hash.digest('binary')
    return this.#digest
  }
}
