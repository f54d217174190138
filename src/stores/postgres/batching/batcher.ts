import { storeTimeout } from '../../../core/errors.js'
import { Bounded } from '../bounded.js'
import type { Statements } from '../plans.js'

/** The batches that a store has under way, of all kinds. */
interface Traffic {
  statements: number
}

/** The answer to an item that must be asked about alone, because it is locked. */
export const askAlone = Symbol('ask alone')

/** With fewer rows than this, what a statement costs by itself is more than what two at the same time save. */
const worthAStatement = 32

export interface BatcherParts<Item, Result> {
  readonly db: Statements
  readonly traffic: Traffic
  /** The most rows of one statement. */
  readonly maxRows: number
  /** The most bytes of one statement, unless an item has more by itself: they are in memory several times over while it is sent. */
  readonly maxBytes: number
  /** The most statements at the same time. */
  readonly maxInFlight: number
  /** A statement that takes longer than this does not count any more: it may stand behind a lock, and others must not stand behind it. */
  readonly slowMs: number
  /** Items of the same id are one row of a statement, at most. */
  idOf(item: Item): string
  bytesOf(item: Item): number
  /**
   * What the answer to one item means for another one of the same id that waited with it. Undefined: such items go one after the other.
   */
  shared?(result: Result): Result
  one(db: Bounded, item: Item): Promise<Result>
  /** Answers for each item in its place. */
  many(db: Bounded, items: readonly Item[]): Promise<readonly (Result | typeof askAlone)[]>
  /** True for an error that others of the same id would get as well: they have it at once. Default: none is. */
  sharesError?(error: unknown): boolean
  /** True for an error that may be the fault of one item: then each is asked about alone, and has its own error. */
  isOfOne(error: unknown): boolean
}

interface Waiting<Item, Result> {
  readonly item: Item
  /** When its caller stops waiting, by `performance.now()`. Then it is not sent any more. */
  readonly until: number
  resolve(result: Result): void
  reject(error: unknown): void
  /** Others of the same id. */
  companions?: Waiting<Item, Result>[]
}

/**
 * Puts what is waiting at the same moment into one statement. No request waits for a timer: a batch is what gathered while the statements before
 * it were on their way, and a request that is alone goes out at once, as it would without.
 */
export class Batcher<Item, Result> {
  readonly #parts: BatcherParts<Item, Result>
  #queue: Waiting<Item, Result>[] = []
  /** When each statement that counts was sent. */
  readonly #inFlight = new Set<{ readonly since: number }>()
  #isPlanned = false
  #isWatched = false
  #wasAlone = true

  constructor(parts: BatcherParts<Item, Result>) {
    this.#parts = parts
  }

  submit(item: Item, until: number): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ item, until, resolve, reject })
      this.#plan()
    })
  }

  /**
   * At the end of this turn of the event loop, so that all requests that it brought are there. While they come one by one it is not worth
   * the turn: then at the end of what runs just now.
   */
  #plan(): void {
    if (this.#isPlanned) return
    if (this.#inFlight.size >= this.#parts.maxInFlight) {
      this.#watch()
      return
    }
    this.#isPlanned = true
    const send = () => {
      this.#isPlanned = false
      this.#dropLate()
      const maxRows = this.#share()
      while (this.#queue.length > 0 && this.#inFlight.size < this.#parts.maxInFlight) void this.#send(this.#take(maxRows))
      if (this.#queue.length > 0) this.#watch()
    }
    if (this.#wasAlone && this.#inFlight.size === 0) process.nextTick(send)
    else setImmediate(send)
  }

  /** Rejects items whose caller no longer waits: they are not sent. */
  #dropLate(): void {
    const now = performance.now()
    if (!this.#queue.some(({ until }) => until <= now)) return
    const late = this.#queue.filter(({ until }) => until <= now)
    this.#queue = this.#queue.filter(({ until }) => until > now)
    for (const { reject } of late) reject(storeTimeout({ neverSent: true }))
  }

  /** A statement that takes too long does not count any more. Asked only while there are items that wait for its place. */
  #watch(): void {
    if (this.#isWatched) return
    this.#isWatched = true
    const { slowMs } = this.#parts
    const [oldest] = this.#inFlight
    const timer = setTimeout(
      () => {
        this.#isWatched = false
        this.#dropLate()
        for (const flight of this.#inFlight) if (performance.now() - flight.since >= slowMs) this.#inFlight.delete(flight)
        if (this.#queue.length > 0) this.#plan()
      },
      Math.max(1, Math.ceil(slowMs - (performance.now() - (oldest?.since ?? 0)))),
    )
    timer.unref()
  }

  /** Those that have waited longest, each id once: a second one shares the answer, or goes with the next batch. */
  #take(maxRows: number): Waiting<Item, Result>[] {
    const { idOf, bytesOf, shared, maxBytes } = this.#parts
    if (this.#queue.length === 1) return this.#queue.splice(0)
    const batch = new Map<string, Waiting<Item, Result>>()
    const left: Waiting<Item, Result>[] = []
    let bytes = 0
    for (const waiting of this.#queue) {
      const id = idOf(waiting.item)
      const first = batch.get(id)
      if (first && shared) {
        first.companions ??= []
        first.companions.push(waiting)
        continue
      }
      const more = bytesOf(waiting.item)
      if (first || batch.size >= maxRows || (batch.size > 0 && bytes + more > maxBytes)) left.push(waiting)
      else {
        batch.set(id, waiting)
        bytes += more
      }
    }
    this.#queue = left
    return [...batch.values()]
  }

  /**
   * All in one statement, as a rule. But if nothing is under way they would stay together from then on: the database would stand still while
   * this process answers all of them, and this process while the database works. In several parts, they take turns.
   */
  #share(): number {
    const { maxRows, maxInFlight, traffic } = this.#parts
    if (traffic.statements > 0) return maxRows
    const parts = Math.min(maxInFlight, Math.floor(this.#queue.length / worthAStatement))
    return parts > 1 ? Math.min(maxRows, Math.ceil(this.#queue.length / parts)) : maxRows
  }

  async #send(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    const flight = { since: performance.now() }
    this.#inFlight.add(flight)
    this.#parts.traffic.statements += 1
    this.#wasAlone = batch.length === 1
    const [first] = batch as [Waiting<Item, Result>]
    await (batch.length === 1 ? this.#ask(first) : this.#together(batch))
    this.#parts.traffic.statements -= 1
    this.#inFlight.delete(flight)
    if (this.#queue.length > 0) this.#plan()
  }

  async #together(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    const { many, isOfOne } = this.#parts
    let results: readonly (Result | typeof askAlone)[]
    try {
      results = await many(
        this.#boundFor(batch),
        batch.map(({ item }) => item),
      )
    } catch (error) {
      for (const waiting of batch) {
        if (isOfOne(error)) void this.#ask(waiting)
        else this.#fail(waiting, error)
      }
      return
    }
    for (const [index, waiting] of batch.entries()) {
      const result = results[index] as Result | typeof askAlone
      // Not waited for: the next batch must not stand behind a locked row.
      if (result === askAlone) void this.#ask(waiting)
      else this.#answer(waiting, result)
    }
  }

  /** The latest deadline of the batch. */
  #boundFor(batch: readonly Waiting<Item, Result>[]): Bounded {
    let until = 0
    for (const waiting of batch) for (const each of [waiting, ...(waiting.companions ?? [])]) until = Math.max(until, each.until)
    return new Bounded(this.#parts.db, { timeoutMs: until - performance.now() })
  }

  /** In a statement of its own. */
  #ask(waiting: Waiting<Item, Result>): Promise<void> {
    return this.#parts.one(this.#boundFor([waiting]), waiting.item).then(
      (result) => this.#answer(waiting, result),
      (error: unknown) => this.#fail(waiting, error),
    )
  }

  #answer({ resolve, companions }: Waiting<Item, Result>, result: Result): void {
    resolve(result)
    for (const companion of companions ?? []) companion.resolve((this.#parts.shared as (result: Result) => Result)(result))
  }

  /** What was wrong with one need not be wrong with another. */
  #fail({ reject, companions = [] }: Waiting<Item, Result>, error: unknown): void {
    reject(error)
    if (companions.length === 0) return
    if (this.#parts.sharesError?.(error)) {
      for (const companion of companions) companion.reject(error)
      return
    }
    this.#queue.unshift(...companions)
    this.#plan()
  }
}
