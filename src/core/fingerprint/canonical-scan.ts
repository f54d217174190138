import { isUtf8 } from 'node:buffer'
import { canonicalNumber, endOfNumber, endOfUsualNumber } from './canonical-number.js'
import { codePointAt, writeCodePoint } from './code-points.js'
import type { ExcludedMembers } from './exclusions.js'
import { isNamed } from './member-names.js'
import { OpenMembers } from './open-members.js'

const maxDepth = 256

/** The next state. `done` and `refused` are final. */
const [value, name, afterValue, insideValue, insideName, ordering, done, refused] = [0, 1, 2, 3, 4, 5, 6, 7]

const [quote, backslash, comma, colon, minus, zero, nine] = [34, 92, 44, 58, 45, 48, 57]
const [letterF, letterT, letterU] = [102, 116, 117]
const [openBrace, closeBrace, openBracket, closeBracket] = [123, 125, 91, 93]

/** Cost of an unusual number, in bytes scanned. */
const unusualNumberWork = 300

/**
 * Writes the canonical form of a JSON text (RFC 8785) in one pass over its bytes, in slices. Input is copied to the output in its canonical
 * spelling; at the end of an object whose members are out of order, their bytes are sorted in place.
 *
 * It refuses invalid JSON, and JSON that `JSON.parse` would change, because two different texts would become equal: duplicate members (the
 * last one wins) and numbers without an exact double (9007199254740993 becomes …992). It also refuses nesting beyond `maxDepth`, and lone
 * surrogates, which have no UTF-8 form.
 */
export class CanonicalScan {
  #state = refused
  #bytes: Uint8Array = Buffer.alloc(0)
  #at = 0
  /** Where the slice ends. Work other than reading moves it closer. */
  #pause = 0
  #out: Buffer = Buffer.alloc(0)
  /** Bytes written. Behind them is always room for the rest of the input and a copy of it. */
  #to = 0
  #depth = 0
  readonly #members = new OpenMembers()
  /** By depth: start of the content in the output. */
  readonly #begins = new Int32Array(maxDepth + 1)
  /** By depth: the object's first member; in an array -1 for the first element, -2 for the second, … */
  readonly #firsts = new Int32Array(maxDepth + 1)
  /** By depth: 1 if members have to be moved or left out. */
  readonly #isToOrder = new Uint8Array(maxDepth + 1)
  readonly #excluded: ExcludedMembers[] = []
  #ordering: Iterator<undefined, number> | undefined
  #hasHalves = false

  /** `prefix` comes in front of the result. */
  begin(bytes: Uint8Array, prefix: Uint8Array, excluded: ExcludedMembers): void {
    this.#state = isUtf8(bytes) ? value : refused
    this.#bytes = bytes
    // Skip a byte order mark.
    this.#at = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0
    this.#to = 0
    this.#makeRoom(prefix.length)
    this.#out.set(prefix)
    this.#to = prefix.length
    this.#depth = this.#members.count = 0
    this.#excluded[0] = excluded
    this.#hasHalves = false
  }

  /** True when ended. One unit of work is about the cost of a byte. */
  advance(work: number): boolean {
    this.#pause = this.#at + work
    while (this.#state < done) {
      if (this.#at >= this.#pause) return false
      this.#state = this.#step()
    }
    return true
  }

  /** Null if refused. Valid until the next `begin()`. */
  get result(): Uint8Array | null {
    if (this.#state !== done) return null
    const result = this.#out.subarray(0, this.#to)
    // Excluded members may have had them.
    return this.#hasHalves && !isUtf8(result) ? null : result
  }

  /** Returns the next state. */
  #step(): number {
    switch (this.#state) {
      case value:
        return this.#value()
      case name:
        return this.#name()
      case afterValue:
        return this.#afterValue()
      case ordering: {
        const ordered = (this.#ordering as Iterator<undefined, number>).next()
        return ordered.done ? this.#closeAt(ordered.value) : ordering
      }
      default:
        return this.#text(this.#state)
    }
  }

  /** The next byte that is not white space, or -1. */
  #next(): number {
    const bytes = this.#bytes
    for (let at = this.#at; at < bytes.length; at += 1) {
      const byte = bytes[at] as number
      if (byte > 32 || (byte !== 32 && byte !== 10 && byte !== 13 && byte !== 9)) {
        this.#at = at
        return byte
      }
    }
    this.#at = bytes.length
    return -1
  }

  #copy(byte: number): void {
    this.#at += 1
    this.#out[this.#to++] = byte
  }

  #value(): number {
    const byte = this.#next()
    if (byte === quote) {
      this.#copy(quote)
      return this.#text(insideValue)
    }
    if (byte === openBrace || byte === openBracket) return this.#open(byte)
    if (byte === minus || (byte >= zero && byte <= nine)) return this.#number()
    return this.#literal(byte === letterT ? trueBytes : byte === letterF ? falseBytes : nullBytes)
  }

  #literal(literal: Uint8Array): number {
    const bytes = this.#bytes
    if (bytes.length - this.#at < literal.length) return refused
    for (let index = 0; index < literal.length; index += 1) {
      const byte = literal[index] as number
      if (bytes[this.#at] !== byte) return refused
      this.#copy(byte)
    }
    return afterValue
  }

  #open(bracket: number): number {
    const depth = this.#depth + 1
    if (depth > maxDepth) return refused
    const excluded = this.#excludedHere()
    const isObject = bracket === openBrace
    this.#depth = depth
    this.#copy(bracket)
    this.#begins[depth] = this.#to
    this.#firsts[depth] = isObject ? this.#members.count : -1
    this.#isToOrder[depth] = excluded.length > 0 ? 1 : 0
    this.#excluded[depth] = excluded
    if (this.#next() === (isObject ? closeBrace : closeBracket)) return this.#close()
    return isObject ? name : value
  }

  /** The exclusions within the value that begins here. */
  #excludedHere(): ExcludedMembers {
    const around = this.#excluded[this.#depth] as ExcludedMembers
    if (around.length === 0 || this.#depth === 0) return around
    const first = this.#firsts[this.#depth] as number
    const isHere = (step: ExcludedMembers[number]) =>
      first < 0 ? step.name === String(-1 - first) : isNamed(this.#out, this.#members.lastStart, step.quotedName)
    return around.find(isHere)?.inside ?? []
  }

  #name(): number {
    if (this.#next() !== quote) return refused
    this.#members.add(this.#to)
    this.#copy(quote)
    return this.#text(insideName)
  }

  /** Up to the end of the string, or of the slice. */
  #text(state: number): number {
    const bytes = this.#bytes
    const out = this.#out
    const end = Math.min(bytes.length, this.#pause)
    let at = this.#at
    let to = this.#to
    let byte = 0
    while (at < end) {
      byte = bytes[at] as number
      if (byte === backslash) {
        this.#at = at
        this.#to = to
        if (!this.#escape()) return refused
        at = this.#at
        to = this.#to
        continue
      }
      if (byte < 32) return refused
      out[to++] = byte
      at += 1
      if (byte === quote) break
    }
    this.#at = at
    this.#to = to
    if (byte !== quote) return at < bytes.length ? state : refused
    return state === insideName ? this.#endName() : afterValue
  }

  /** False if it is invalid. */
  #escape(): boolean {
    const codePoint = codePointAt(this.#bytes, this.#at)
    if (codePoint < 0) return false
    if (codePoint >= 0xd800 && codePoint <= 0xdfff) this.#hasHalves = true
    this.#at += this.#bytes[this.#at + 1] !== letterU ? 2 : codePoint > 0xffff ? 12 : 6
    this.#to = writeCodePoint(this.#out, this.#to, codePoint)
    return true
  }

  #endName(): number {
    if (this.#next() !== colon) return refused
    this.#copy(colon)
    if (this.#members.count - 1 === this.#firsts[this.#depth]) return value
    const order = this.#members.compareLast(this.#out)
    if (order > 0) this.#isToOrder[this.#depth] = 1
    return order === 0 ? refused : value
  }

  #number(): number {
    const bytes = this.#bytes
    const end = endOfUsualNumber(bytes, this.#at)
    if (end < 0) return this.#unusualNumber()
    while (this.#at < end) this.#copy(bytes[this.#at] as number)
    return afterValue
  }

  #unusualNumber(): number {
    const end = endOfNumber(this.#bytes, this.#at)
    const number = end < 0 ? null : canonicalNumber(this.#bytes, this.#at, end)
    if (number === null) return refused
    this.#at = end
    this.#makeRoom(number.length)
    for (let index = 0; index < number.length; index += 1) this.#out[this.#to++] = number.charCodeAt(index)
    this.#pause -= unusualNumberWork
    return afterValue
  }

  #makeRoom(more: number): void {
    const needed = 2 * (this.#to + more + this.#bytes.length - this.#at) + 64
    if (needed <= this.#out.length) return
    const out = this.#out
    this.#out = Buffer.allocUnsafeSlow(needed + (needed >> 2))
    this.#out.set(out.subarray(0, this.#to))
  }

  #afterValue(): number {
    const byte = this.#next()
    const depth = this.#depth
    if (depth === 0) return byte === -1 ? done : refused
    const isObject = (this.#firsts[depth] as number) >= 0
    if (byte === comma) {
      this.#copy(comma)
      if (isObject) return name
      this.#firsts[depth] = (this.#firsts[depth] as number) - 1
      return value
    }
    if (byte !== (isObject ? closeBrace : closeBracket)) return refused
    return isObject && this.#isToOrder[depth] === 1 ? this.#putInOrder() : this.#close()
  }

  #close(): number {
    const first = this.#firsts[this.#depth] as number
    if (first >= 0) this.#members.count = first
    this.#copy(this.#bytes[this.#at] as number)
    this.#depth -= 1
    return afterValue
  }

  #putInOrder(): number {
    const depth = this.#depth
    const object = {
      out: this.#out,
      begin: this.#begins[depth] as number,
      end: this.#to,
      first: this.#firsts[depth] as number,
      excluded: this.#excluded[depth] as ExcludedMembers,
    }
    if (this.#members.isSmall(object)) return this.#closeAt(this.#members.putInOrder(object))
    this.#ordering = this.#members.putInOrderInSlices(object, (work) => {
      this.#pause -= work
      return this.#at >= this.#pause
    })
    return ordering
  }

  /** -1: the members have no order, because two are equal. */
  #closeAt(end: number): number {
    if (end < 0) return refused
    this.#to = end
    return this.#close()
  }
}

const trueBytes = Buffer.from('true')
const falseBytes = Buffer.from('false')
const nullBytes = Buffer.from('null')
