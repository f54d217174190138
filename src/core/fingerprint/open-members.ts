import type { ExcludedMembers } from './exclusions.js'
import { compareNames, isNamed } from './member-names.js'
import { sortedInSlices } from './sorted-in-slices.js'

/** Objects of more members, or of more bytes, are put in order in slices. */
const mostAtOnce = { members: 32, bytes: 4_096 }

const comma = 44

/** The content of an object in the output, behind which is room for a copy. */
export interface WrittenObject {
  readonly out: Buffer
  readonly begin: number
  readonly end: number
  /** Its first member. All that follow are its own, too. */
  readonly first: number
  readonly excluded: ExcludedMembers
}

/** Where the members of all open objects begin in the output. */
export class OpenMembers {
  count = 0
  #starts = new Int32Array(256)
  /** The order of the last small object's members: those of the next one often have the same names. */
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

  /** The last member and the one before it: 0 if they have the same name, more if they are out of order. */
  compareLast(out: Buffer): number {
    return compareNames(out, this.#starts[this.count - 2] as number, this.#starts[this.count - 1] as number)
  }

  isSmall({ begin, end, first }: WrittenObject): boolean {
    return this.count - first <= mostAtOnce.members && end - begin <= mostAtOnce.bytes
  }

  /** Where the content ends when its members are in order, without those that are excluded; -1 if two have the same name. */
  putInOrder(object: WrittenObject): number {
    const count = this.count - object.first
    if (!this.#sort(object, count)) return -1
    let end = object.end
    for (let index = 0; index < count; index += 1) end = this.#append(object, object.first + (this.#order[index] as number), end)
    return replaced(object, end)
  }

  /** The same, with a pause wherever `isToPause()` says so of the work that was done meanwhile. */
  *putInOrderInSlices(object: WrittenObject, isToPause: (work: number) => boolean): Generator<undefined, number> {
    const { out, first } = object
    const compare = (one: number, other: number) =>
      compareNames(out, this.#starts[first + one] as number, this.#starts[first + other] as number)
    // The names are at most as long as the members.
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

  /** By insertion. False if two members have the same name. */
  #sort({ out, first }: WrittenObject, count: number): boolean {
    const order = this.#order
    const starts = this.#starts
    if (this.#orderLength !== count) for (let index = 0; index < count; index += 1) order[index] = index
    // Until it is a whole order again.
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

  /** Copies a member and a comma to there, unless it is excluded. */
  #append(object: WrittenObject, member: number, to: number): number {
    const { out, excluded } = object
    const start = this.#starts[member] as number
    if (excluded.length > 0 && excluded.some((step) => step.isWhole && isNamed(out, start, step.quotedName))) return to
    const size = this.#sizeOf(object, member)
    // A call takes longer than to copy a few bytes here.
    if (size > 32) out.copyWithin(to, start, start + size)
    else for (let at = 0; at < size; at += 1) out[to + at] = out[start + at] as number
    out[to + size] = comma
    return to + size + 1
  }
}

/** Puts what was appended, up to there, in the place of the content, without the last comma. */
function replaced({ out, begin, end }: WrittenObject, appendedEnd: number): number {
  out.copyWithin(begin, end, appendedEnd)
  return Math.max(begin, begin + appendedEnd - end - 1)
}
