export interface BatcherParts<Item, Result> {
  /** The most rows of one statement. */
  readonly maxRows: number
  /** The most statements at the same time. */
  readonly maxInFlight: number
  /** A statement that takes longer than this does not count any more: it may stand behind a lock, and others must not stand behind it. */
  readonly slowMs: number
  /** Items of the same id are one row of a statement, at most. */
  idOf(item: Item): string
  /**
   * What the answer to one item means for another one of the same id that waited with it. Undefined: such items go one after the other.
   */
  shared?(result: Result): Result
  one(item: Item): Promise<Result>
  /** Answers for each item in its place; undefined for one that must be asked about alone, because somebody has it locked. */
  many(items: readonly Item[]): Promise<readonly (Result | undefined)[]>
  /** True for an error that may be the fault of one item: then each is asked about alone, and has its own error. */
  isOfOne(error: unknown): boolean
}

interface Waiting<Item, Result> {
  readonly item: Item
  resolve(result: Result): void
  reject(error: unknown): void
  /** Others of the same id. */
  readonly companions: Waiting<Item, Result>[]
}

/**
 * Puts what is waiting at the same moment into one statement. Nobody waits for a timer: a batch is what gathered while the statements before
 * it were on their way, and a request that is alone goes out at once, as it would without.
 */
export class Batcher<Item, Result> {
  readonly #parts: BatcherParts<Item, Result>
  #queue: Waiting<Item, Result>[] = []
  #inFlight = 0
  #isPlanned = false

  constructor(parts: BatcherParts<Item, Result>) {
    this.#parts = parts
  }

  submit(item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ item, resolve, reject, companions: [] })
      this.#plan()
    })
  }

  /** At the end of this turn of the event loop, so that all requests that it brought are there. */
  #plan(): void {
    if (this.#isPlanned || this.#inFlight >= this.#parts.maxInFlight) return
    this.#isPlanned = true
    setImmediate(() => {
      this.#isPlanned = false
      while (this.#queue.length > 0 && this.#inFlight < this.#parts.maxInFlight) void this.#send(this.#take())
    })
  }

  /** Those that have waited longest, each id once: a second one shares the answer, or goes with the next batch. */
  #take(): Waiting<Item, Result>[] {
    const { maxRows, idOf, shared } = this.#parts
    const batch = new Map<string, Waiting<Item, Result>>()
    const left: Waiting<Item, Result>[] = []
    for (const waiting of this.#queue) {
      const id = idOf(waiting.item)
      const first = batch.get(id)
      if (first && shared) first.companions.push(waiting)
      else if (first || batch.size >= maxRows) left.push(waiting)
      else batch.set(id, waiting)
    }
    this.#queue = left
    return [...batch.values()]
  }

  async #send(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    this.#inFlight += 1
    await quickly(batch.length === 1 ? this.#alone(batch) : this.#together(batch), this.#parts.slowMs)
    this.#inFlight -= 1
    if (this.#queue.length > 0) this.#plan()
  }

  async #together(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    const { many, isOfOne } = this.#parts
    let results: readonly (Result | undefined)[]
    try {
      results = await many(batch.map(({ item }) => item))
    } catch (error) {
      if (isOfOne(error)) void this.#alone(batch)
      else for (const waiting of batch) this.#fail(waiting, error)
      return
    }
    const leftOut: Waiting<Item, Result>[] = []
    for (const [index, waiting] of batch.entries()) {
      const result = results[index]
      if (result === undefined) leftOut.push(waiting)
      else this.#answer(waiting, result)
    }
    // Not waited for: the next batch must not stand behind a row that somebody has locked.
    void this.#alone(leftOut)
  }

  async #alone(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    await Promise.all(
      batch.map((waiting) =>
        this.#parts.one(waiting.item).then(
          (result) => this.#answer(waiting, result),
          (error: unknown) => this.#fail(waiting, error),
        ),
      ),
    )
  }

  #answer({ resolve, companions }: Waiting<Item, Result>, result: Result): void {
    resolve(result)
    for (const companion of companions) companion.resolve((this.#parts.shared as (result: Result) => Result)(result))
  }

  /** What was wrong with one need not be wrong with another. */
  #fail({ reject, companions }: Waiting<Item, Result>, error: unknown): void {
    reject(error)
    if (companions.length === 0) return
    this.#queue.unshift(...companions)
    this.#plan()
  }
}

/** The end of it, or of our patience. It never rejects: everybody is told by themselves. */
function quickly(work: Promise<void>, slowMs: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, slowMs)
    timer.unref()
    work.finally(() => {
      clearTimeout(timer)
      resolve()
    })
  })
}
