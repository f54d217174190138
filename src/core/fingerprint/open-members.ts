import type { ExcludedMembers } from './exclusions.js'
import { compareNames, isNamed } from './member-names.js'
import { sortedInSlices } from './sorted-in-slices.js'

/** Larger objects are sorted in slices. */
const mostAtOnce = { members: 32, bytes: 4_096 }

const comma = 44

/** The content of an object in the output, followed by room for a copy. */
export interface WrittenObject {
  readonly out: Buffer
  readonly begin: number
  readonly end: number
  /** Index of its first member. All later ones are its own too. */
  readonly first: number
  readonly excluded: ExcludedMembers
}

/** Start positions of the members of all open objects. */
export class OpenMembers {
  count = 0
  #starts = new Int32Array(256)
  /** The order of the last small object's members: the next one often has the same names. */
  readonly #order = new Int32Array(mostAtOnce.members)
  #orderLength = 0

  add(start: number): void {
    if (this.count === this.#starts.length) {
      const starts = this.#starts
      this.#starts = new Int32Array(2 * starts.length)
      this.#starts.set(starts)
    }
    this.#starts[this.count++] = start
  }

  get lastStart(): number {
    return this.#starts[this.count - 1] as number
  }

  /** Compares the last two members: 0 if they have the same name, positive if they are out of order. */
  compareLast(out: Buffer): number {
    return compareNames(out, this.#starts[this.count - 2] as number, this.#starts[this.count - 1] as number)
  }

  isSmall({ begin, end, first }: WrittenObject): boolean {
    return this.count - first <= mostAtOnce.members && end - begin <= mostAtOnce.bytes
  }

  /** Sorts the members and drops excluded ones. Returns the end of the content; -1 if two have the same name. */
  putInOrder(object: WrittenObject): number {
    const count = this.count - object.first
    if (!this.#sort(object, count)) return -1
    let end = object.end
    for (let index = 0; index < count; index += 1) end = this.#append(object, object.first + (this.#order[index] as number), end)
    return replaced(object, end)
  }

  /** The same, with a pause wherever `isToPause()` asks for one, given the work done since. */
  *putInOrderInSlices(object: WrittenObject, isToPause: (work: number) => boolean): Generator<undefined, number> {
    const { out, first } = object
    const compare = (one: number, other: number) =>
      compareNames(out, this.#starts[first + one] as number, this.#starts[first + other] as number)
    // Names are at most as long as their members.
    const isToPauseAt = (index: number) => isToPause(16 + (this.#sizeOf(object, first + index) >> 1))
    const order = yield* sortedInSlices(this.count - first, compare, isToPauseAt)
    if (order === null) return -1
    let end = object.end
    for (const member of order) {
      end = this.#append(object, first + member, end)
      if (isToPause(16 + (this.#sizeOf(object, first + member) >> 3))) yield
    }
    return replaced(object, end)
  }

  /** Insertion sort. False if two members have the same name. */
  #sort({ out, first }: WrittenObject, count: number): boolean {
    const order = this.#order
    const starts = this.#starts
    if (this.#orderLength !== count) for (let index = 0; index < count; index += 1) order[index] = index
    // Until the order is complete again.
    this.#orderLength = 0
    for (let index = 1; index < count; index += 1) {
      const member = order[index] as number
      let place = index
      for (; place > 0; place -= 1) {
        const before = order[place - 1] as number
        const comparison = compareNames(out, starts[first + before] as number, starts[first + member] as number)
        if (comparison === 0) return false
        if (comparison < 0) break
        order[place] = before
      }
      order[place] = member
    }
    this.#orderLength = count
    return true
  }

  #sizeOf({ end }: WrittenObject, member: number): number {
    const memberEnd = member + 1 === this.count ? end : (this.#starts[member + 1] as number) - 1
    return memberEnd - (this.#starts[member] as number)
  }

  /** Copies a member and a comma to `to`, unless it is excluded. */
  #append(object: WrittenObject, member: number, to: number): number {
    const { out, excluded } = object
    const start = this.#starts[member] as number
    if (excluded.length > 0 && excluded.some((step) => step.isWhole && isNamed(out, start, step.quotedName))) return to
    const size = this.#sizeOf(object, member)
    // For a few bytes a call takes longer than a loop.
    if (size > 32) out.copyWithin(to, start, start + size)
    else for (let at = 0; at < size; at += 1) out[to + at] = out[start + at] as number
    out[to + size] = comma
    return to + size + 1
  }
}

/** Replaces the content with what was appended, without the last comma. */
function replaced({ out, begin, end }: WrittenObject, appendedEnd: number): number {
  out.copyWithin(begin, end, appendedEnd)
  return Math.max(begin, begin + appendedEnd - end - 1)
}
