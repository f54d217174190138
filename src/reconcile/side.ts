import { OncekeyError } from '../core/errors.js'
import { type CompareKeys, type ReconcileKey, shownKey } from './key-order.js'

/** Items in the order of their keys, each key once: pages of a query, lines of a file, a list. */
export type Stream<Item> = AsyncIterable<Item> | Iterable<Item>

export interface SideOptions<Item, Key> {
  readonly name: 'local' | 'foreign'
  readonly stream: Stream<Item>
  keyOf(item: Item): Key
  readonly compareKeys: CompareKeys<Key>
  /** Ends a wait for the stream early. */
  interruptible<T>(wait: Promise<T>): Promise<T>
}

/** One of the two streams, with its current item. */
export class Side<Item, Key extends ReconcileKey> {
  /** Undefined before the first item and after the last. */
  current: { readonly item: Item; readonly key: Key } | undefined
  read = 0
  readonly #options: SideOptions<Item, Key>
  readonly #iterator: AsyncIterator<Item> | Iterator<Item>
  /** Whether to close the stream: one that ended or failed has closed itself. */
  #state: 'idle' | 'reading' | 'over' = 'idle'

  constructor(options: SideOptions<Item, Key>) {
    this.#options = options
    const { stream } = options
    this.#iterator = Symbol.asyncIterator in stream ? stream[Symbol.asyncIterator]() : stream[Symbol.iterator]()
  }

  /** Reads the next item, and checks its order. */
  async advance(): Promise<void> {
    const { keyOf, interruptible } = this.#options
    this.#state = 'reading'
    const result = await interruptible(this.#next())
    if (result.done) {
      this.#state = 'over'
      this.current = undefined
      return
    }
    this.#state = 'idle'
    const key = keyOf(result.value)
    this.#check(key)
    this.current = { item: result.value, key }
    this.read += 1
  }

  async #next(): Promise<IteratorResult<Item>> {
    try {
      return await this.#iterator.next()
    } catch (error) {
      this.#state = 'over'
      throw error
    }
  }

  /** Closes the stream. One in the middle of a read closes after it, without being awaited: it may hang. */
  async close(): Promise<void> {
    if (this.#state === 'over') return
    const wasReading = this.#state === 'reading'
    this.#state = 'over'
    const closing = Promise.resolve(this.#iterator.return?.())
    if (wasReading) closing.catch(() => {})
    else await closing
  }

  #check(key: Key): void {
    const { name, compareKeys } = this.#options
    const isKey = typeof key === 'string' || typeof key === 'bigint' || (typeof key === 'number' && Number.isFinite(key))
    if (!isKey) {
      throw new OncekeyError(
        'reconcile_key_invalid',
        `Item ${this.read + 1} of the ${name} stream has the key ${shownKey(key)}: a key must be a string, a finite number or a bigint.`,
      )
    }
    if (this.current === undefined) return
    const order = compareKeys(this.current.key, key)
    if (order < 0) return
    if (order === 0) {
      throw new OncekeyError(
        'reconcile_key_repeated',
        `The ${name} stream has ${shownKey(this.current.key)} and then ${shownKey(key)}, which is the same key: ` +
          'give each item its own key, or merge those that belong together.',
      )
    }
    throw new OncekeyError(
      'reconcile_unsorted',
      `The ${name} stream is not in order: ${shownKey(this.current.key)} came before ${shownKey(key)}. Sort texts by their bytes ` +
        '(order by … collate "C" in Postgres, LC_ALL=C sort in a shell), convert numeric keys (BigInt(row.id)), or pass the order.',
    )
  }
}
