import { binaryArray } from './array-binary.js'
import { arrayLiteral, type Element, writerOf } from './array-literal.js'

/** A column of a batch, to be sent as a connection can: as text, which all can, or in the binary format. */
export class SentArray {
  readonly #type: string
  readonly #items: readonly unknown[]
  readonly #of: (item: never) => Element

  constructor(type: string, items: readonly unknown[], of: (item: never) => Element) {
    this.#type = type
    this.#items = items
    this.#of = of
  }

  /** For a parameter that the statement casts: see `binaryCasts`. */
  text(): string {
    return arrayLiteral(this.#items as readonly never[], this.#of, writerOf(this.#type))
  }

  binary(): Uint8Array {
    return binaryArray(this.#type, this.#items as readonly never[], this.#of)
  }

  /** The parameter of that number, in SQL, for the text of an array. */
  static parameter(number: number, type: string): string {
    return `$${number}::text::${type}[]`
  }
}

/** The same statement for arrays in the binary format: those are not texts before they are arrays. */
export function binaryCasts(text: string): string {
  return text.replaceAll(/(\$\d+)::text::(\w+\[\])/g, '$1::$2')
}
