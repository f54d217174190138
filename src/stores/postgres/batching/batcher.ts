export interface BatcherParts<Item, Result> {
  /** The most rows of one statement. */
  readonly maxRows: number
  /** The most statements at the same time. */
  readonly maxInFlight: number
  /** Items of the same id never share a statement. */
  idOf(item: Item): string
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
      this.#queue.push({ item, resolve, reject })
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

  /** Those that have waited longest, each id once: a second one goes with the next batch, and finds what became of the first. */
  #take(): Waiting<Item, Result>[] {
    const { maxRows, idOf } = this.#parts
    const ids = new Set<string>()
    const batch: Waiting<Item, Result>[] = []
    const left: Waiting<Item, Result>[] = []
    for (const waiting of this.#queue) {
      const id = idOf(waiting.item)
      if (batch.length >= maxRows || ids.has(id)) {
        left.push(waiting)
        continue
      }
      ids.add(id)
      batch.push(waiting)
    }
    this.#queue = left
    return batch
  }

  async #send(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    this.#inFlight += 1
    try {
      await (batch.length === 1 ? this.#alone(batch) : this.#together(batch))
    } finally {
      this.#inFlight -= 1
      if (this.#queue.length > 0) this.#plan()
    }
  }

  async #together(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    const { many, isOfOne } = this.#parts
    let results: readonly (Result | undefined)[]
    try {
      results = await many(batch.map(({ item }) => item))
    } catch (error) {
      if (isOfOne(error)) return this.#alone(batch)
      for (const { reject } of batch) reject(error)
      return
    }
    const leftOut: Waiting<Item, Result>[] = []
    for (const [index, waiting] of batch.entries()) {
      const result = results[index]
      if (result === undefined) leftOut.push(waiting)
      else waiting.resolve(result)
    }
    // Not waited for: the next batch must not stand behind a row that somebody has locked.
    void this.#alone(leftOut)
  }

  async #alone(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    await Promise.all(batch.map(({ item, resolve, reject }) => this.#parts.one(item).then(resolve, reject)))
  }
}
