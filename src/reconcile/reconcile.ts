import { OncekeyError } from '../core/errors.js'
import { type KeyOrder, keyOrder, type ReconcileKey } from './key-order.js'
import { Side, type Stream } from './side.js'

/** One function for both sides, or one for each. */
export type ForBoth<Local, Foreign, Result> =
  | ((item: Local | Foreign) => Result)
  | { readonly local: (item: Local) => Result; readonly foreign: (item: Foreign) => Result }

export interface ReconcileOptions<Local, Foreign, Key extends ReconcileKey> {
  /** Our records, sorted by key, each key once. Read one item at a time, and always closed at the end. */
  local: Stream<Local>
  /** The other side's, in the same order. */
  foreign: Stream<Foreign>
  /** The key by which items of both sides match. */
  key: ForBoth<Local, Foreign, Key>
  /**
   * What must agree in two items of one key, by name: `{ amount: (ours, theirs) => ours.total === theirs.amount }`. Names that do not agree
   * are reported. Default: nothing, both only have to exist.
   */
  compare?: Readonly<Record<string, (local: Local, foreign: Foreign) => boolean>>
  /** How both streams are sorted. A stream in another order is an error, never a wrong report. Default `'bytes'`, as `collate "C"`. */
  order?: KeyOrder<Key>
  /**
   * True if an item is no longer in progress. Differences of other items are counted as `unsettled` and not reported: the next round will
   * show. Default: all are settled.
   */
  settled?: ForBoth<Local, Foreign, boolean>
  /** Ends it early, even while a stream hangs: the iteration throws the signal's reason. */
  signal?: AbortSignal
}

/** An item missing on one side, or different. */
export type Difference<Local, Foreign = Local, Key = ReconcileKey> =
  | { readonly kind: 'only-local'; readonly key: Key; readonly local: Local }
  | { readonly kind: 'only-foreign'; readonly key: Key; readonly foreign: Foreign }
  /** `fields`: the names of `compare` that do not agree. */
  | { readonly kind: 'differs'; readonly key: Key; readonly local: Local; readonly foreign: Foreign; readonly fields: readonly string[] }

export interface ReconcileCounts {
  readonly equal: number
  readonly differs: number
  readonly onlyLocal: number
  readonly onlyForeign: number
  /** Differences of unsettled items. */
  readonly unsettled: number
}

export interface ReconcileSummary extends ReconcileCounts {
  /** Items read. */
  readonly local: number
  readonly foreign: number
  /** Both streams were read to the end. Until then a stream may prove unsorted, and reported differences wrong. */
  readonly complete: boolean
}

export interface Reconciliation<Local, Foreign, Key> extends AsyncIterable<Difference<Local, Foreign, Key>> {
  /** The counts so far. */
  readonly summary: ReconcileSummary
}

/**
 * Compares two sorted streams of any size in constant memory: one item of each is held.
 *
 * @example
 * const run = reconcile({ local: orders, foreign: charges, key: { local: (order) => order.id, foreign: (charge) => charge.orderId } })
 * for await (const difference of run) console.log(difference)
 * console.log(run.summary)
 */
export function reconcile<Local, Foreign, Key extends ReconcileKey>(
  options: ReconcileOptions<Local, Foreign, Key>,
): Reconciliation<Local, Foreign, Key> {
  const { order = 'bytes', compare = {}, signal } = options
  const streams = { local: checkedStream('local', options.local), foreign: checkedStream('foreign', options.foreign) }
  const keyOf = forBoth('key', options.key)
  const isSettled = options.settled === undefined ? undefined : forBoth('settled', options.settled)
  const fields = checkedFields(compare)
  const compareKeys = keyOrder(order)
  const counts = { equal: 0, differs: 0, onlyLocal: 0, onlyForeign: 0, unsettled: 0 }
  let sides: { readonly local: Side<Local, Key>; readonly foreign: Side<Foreign, Key> } | undefined
  let complete = false

  return {
    get summary() {
      return { ...counts, local: sides?.local.read ?? 0, foreign: sides?.foreign.read ?? 0, complete }
    },
    [Symbol.asyncIterator]() {
      // A second read would find nothing, which looks like success.
      if (sides) throw new OncekeyError('option_invalid', 'A reconciliation can be read once: call reconcile() again, with new streams.')
      signal?.throwIfAborted()
      const { interruptible, stopListening } = interrupter(signal)
      const common = { compareKeys, interruptible }
      sides = {
        local: new Side({ ...common, name: 'local', stream: streams.local, keyOf: keyOf.local }),
        foreign: new Side({ ...common, name: 'foreign', stream: streams.foreign, keyOf: keyOf.foreign }),
      }
      return differences(sides.local, sides.foreign, stopListening)
    },
  }

  async function* differences(
    local: Side<Local, Key>,
    foreign: Side<Foreign, Key>,
    stopListening: () => void,
  ): AsyncGenerator<Difference<Local, Foreign, Key>, void, undefined> {
    let failed = true
    try {
      await Promise.all([local.advance(), foreign.advance()])
      while (local.current !== undefined || foreign.current !== undefined) {
        const found = meet(local.current, foreign.current)
        if (found) {
          // Leaving the loop here is not a failure.
          failed = false
          yield found
          failed = true
          signal?.throwIfAborted()
        }
        await pass(local, foreign)
      }
      complete = true
      failed = false
    } finally {
      stopListening()
      const closing = Promise.all([local.close(), foreign.close()])
      // The first error wins.
      await (failed ? closing.catch(() => {}) : closing)
    }
  }

  type Held<Item> = { readonly item: Item; readonly key: Key } | undefined

  /** Negative: the local item comes first. Positive: the foreign one. */
  function first(local: Held<Local>, foreign: Held<Foreign>): number {
    if (local === undefined) return 1
    return foreign === undefined ? -1 : compareKeys(local.key, foreign.key)
  }

  /** The difference between the current items, if any. */
  function meet(local: Held<Local>, foreign: Held<Foreign>): Difference<Local, Foreign, Key> | undefined {
    const which = first(local, foreign)
    if (local && which < 0) {
      if (!countSettled(local.item, undefined, 'onlyLocal')) return undefined
      return { kind: 'only-local', key: local.key, local: local.item }
    }
    if (foreign && which > 0) {
      if (!countSettled(undefined, foreign.item, 'onlyForeign')) return undefined
      return { kind: 'only-foreign', key: foreign.key, foreign: foreign.item }
    }
    const [{ item: ours, key }, { item: theirs }] = [local as { item: Local; key: Key }, foreign as { item: Foreign }]
    const differing = fields.filter(([name, agree]) => !yesOrNo(`compare.${name}`, agree(ours, theirs))).map(([name]) => name)
    if (differing.length === 0) {
      counts.equal += 1
      return undefined
    }
    if (!countSettled(ours, theirs, 'differs')) return undefined
    return { kind: 'differs', key, local: ours, foreign: theirs, fields: differing }
  }

  function countSettled(local: Local | undefined, foreign: Foreign | undefined, as: keyof typeof counts): boolean {
    const settled =
      isSettled === undefined ||
      ((local === undefined || yesOrNo('settled', isSettled.local(local))) &&
        (foreign === undefined || yesOrNo('settled', isSettled.foreign(foreign))))
    counts[settled ? as : 'unsettled'] += 1
    return settled
  }

  /** Advances the side that came first, or both. */
  async function pass(local: Side<Local, Key>, foreign: Side<Foreign, Key>): Promise<void> {
    const which = first(local.current, foreign.current)
    if (which < 0) await local.advance()
    else if (which > 0) await foreign.advance()
    else await Promise.all([local.advance(), foreign.advance()])
  }
}

/**
 * Ends a wait when the signal aborts. One listener for all waits, and no memory for each: racing a long-lived promise would leak a reaction
 * per item.
 */
function interrupter(signal: AbortSignal | undefined) {
  if (!signal) return { interruptible: <T>(wait: Promise<T>) => wait, stopListening() {} }
  const waiting = new Set<(reason: unknown) => void>()
  const interrupt = () => {
    for (const reject of waiting) reject(signal.reason)
  }
  signal.addEventListener('abort', interrupt)
  return {
    interruptible: <T>(wait: Promise<T>): Promise<T> =>
      new Promise<T>((resolve, reject) => {
        waiting.add(reject)
        const over = () => waiting.delete(reject)
        wait.finally(over).then(resolve, reject)
        if (signal.aborted) reject(signal.reason)
      }),
    stopListening: () => signal.removeEventListener('abort', interrupt),
  }
}

function checkedStream<Item>(name: 'local' | 'foreign', stream: Stream<Item>): Stream<Item> {
  if (typeof stream === 'object' && stream !== null && (Symbol.asyncIterator in stream || Symbol.iterator in stream)) return stream
  throw new OncekeyError('option_invalid', `${name} is not a stream: pass an async iterable, such as pages(…), or an array.`)
}

/** An option as two functions. */
export function forBoth<Local, Foreign, Result>(
  name: string,
  given: ForBoth<Local, Foreign, Result>,
): { local: (item: Local) => Result; foreign: (item: Foreign) => Result } {
  if (typeof given === 'function') return { local: given, foreign: given }
  if (typeof given?.local === 'function' && typeof given.foreign === 'function') return given
  throw new OncekeyError('option_invalid', `${name} must be a function of an item, or { local, foreign } with one for each side.`)
}

function checkedFields<Compare>(compare: Readonly<Record<string, Compare>>): (readonly [string, Compare])[] {
  const fields = Object.entries(compare ?? {})
  // A single function has no names, so nothing would be compared.
  if (typeof compare === 'object' && compare !== null && fields.every(([, agree]) => typeof agree === 'function')) return fields
  throw new OncekeyError(
    'option_invalid',
    'compare must have a function for each name: { amount: (local, foreign) => local.amount === foreign.amount }.',
  )
}

/** A promise, as from an async function, would be truthy. */
function yesOrNo(name: string, word: unknown): boolean {
  if (typeof word === 'boolean') return word
  throw new OncekeyError('option_invalid', `${name} returned ${String(word)}: it must return true or false, synchronously.`)
}
