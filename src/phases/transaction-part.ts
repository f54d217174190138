import { AsyncLocalStorage } from 'node:async_hooks'
import { OncekeyError } from '../core/errors.js'

/** The part that was begun last in each transaction and has not ended. */
const innermost = new WeakMap<object, TransactionPart>()

/** The same by the transaction's id, where several objects may stand for one transaction. */
const innermostById = new Map<string, TransactionPart>()

/** The `within` whose work the code that runs just now belongs to. */
const context = new AsyncLocalStorage<TransactionPart>()

/**
 * Work of ours in a transaction: the whole of it (a phase, local work), or a `within`. Savepoints are a stack, so parts must nest: a part may
 * begin inside the one before it, but not beside it, or undoing one would undo the other.
 */
export class TransactionPart {
  readonly #tx: object
  readonly #name: string
  /** In the same transaction. */
  readonly #outer: TransactionPart | undefined
  /** In any transaction: the one in whose work this one was begun. */
  readonly #around = context.getStore()
  readonly #isWhole: boolean
  /** Its work has returned. */
  #isSealed = false
  #hasEnded = false
  /** Its savepoint was rolled back. */
  #isUndone = false
  /** Of its transaction, where objects do not tell it from others. */
  #id: string | undefined
  #outerById: TransactionPart | undefined
  /** What began beside it, through another object of its transaction. */
  #beside: OncekeyError | undefined
  readonly #ended: Promise<void>
  #end = () => {}

  private constructor(tx: object, name: string, outer: TransactionPart | undefined, isWhole: boolean) {
    this.#tx = tx
    this.#name = name
    this.#outer = outer
    this.#isWhole = isWhole
    this.#ended = new Promise((resolve) => {
      this.#end = resolve
    })
    innermost.set(tx, this)
  }

  /** The `within` that the running code belongs to. */
  static current(): TransactionPart | undefined {
    return context.getStore()
  }

  /** A transaction that we began, so nothing else is open in it. */
  static whole(tx: unknown, name: string): TransactionPart {
    return new TransactionPart(tx as object, name, undefined, true)
  }

  /** A part of a transaction. Throws, before anything is sent, if it would run beside another one. */
  static nested(tx: unknown, name: string): TransactionPart {
    if ((typeof tx !== 'object' && typeof tx !== 'function') || tx === null) {
      throw new OncekeyError('option_invalid', `within() needs the transaction that is open, and got ${String(tx)}.`)
    }
    const open = innermost.get(tx)
    if (open && !open.#lets(context.getStore())) throw open.#overlap(name)
    return new TransactionPart(tx, name, open, false)
  }

  /**
   * Looks for parts that were begun through other objects of the same transaction. An ORM has set a savepoint for each of these objects, so if one
   * is undone, writes of the other one may be lost: both fail.
   */
  identify(id: string): void {
    const open = innermostById.get(id)
    if (open && !open.#lets(this.#around)) {
      open.#beside = this.#overlap(open.#name)
      throw open.#overlap(this.#name)
    }
    this.#id = id
    this.#outerById = open
    innermostById.set(id, this)
  }

  /** Throws if another part was begun beside it. */
  assertAlone(): void {
    if (this.#beside) throw this.#beside
  }

  /** Runs the user's work. What it began and did not await ends first, and then it fails: all that was written is rolled back. */
  async work<T>(work: () => Promise<T> | T): Promise<T> {
    try {
      const value = await (this.#isWhole ? work() : context.run(this, work))
      const forgotten = await this.#seal()
      if (forgotten === undefined) return value
      throw new OncekeyError(
        'steps_overlap',
        `The work of '${this.#name}' returned while '${forgotten}' was under way in its transaction: await every within().`,
      )
    } catch (error) {
      await this.#seal()
      throw error
    }
  }

  /** From here on no part may begin inside. Waits for those that are open, and says which one was. */
  async #seal(): Promise<string | undefined> {
    this.#isSealed = true
    let forgotten: string | undefined
    for (;;) {
      const open = innermost.get(this.#tx)
      if (open === undefined || !open.#isInside(this)) return forgotten
      forgotten = open.#name
      await open.#ended
    }
  }

  /** To be called when all that was written in it is rolled back. */
  undone(): void {
    this.#isUndone = true
  }

  /** Whether what its work did in `tx` was rolled back, with it or with a part around it. */
  isUndoneIn(tx: unknown): boolean {
    for (let at: TransactionPart | undefined = this; at; at = at.#around) {
      if (at.#isUndone && at.#tx === tx) return true
    }
    return false
  }

  /** To be called when nothing more of it will be sent. */
  end(): void {
    this.#hasEnded = true
    // A connection may be in use for another transaction by now.
    if (innermost.get(this.#tx) === this)
      restore(
        innermost,
        this.#tx,
        this.#nextOpen((part) => part.#outer),
      )
    if (this.#id !== undefined && innermostById.get(this.#id) === this) {
      restore(
        innermostById,
        this.#id,
        this.#nextOpen((part) => part.#outerById),
      )
    }
    this.#end()
  }

  /** The part around it that has not ended. One that was given up may end after the one around it. */
  #nextOpen(outerOf: (part: TransactionPart) => TransactionPart | undefined): TransactionPart | undefined {
    for (let part = outerOf(this); part; part = outerOf(part)) {
      if (!part.#hasEnded) return part
    }
    return undefined
  }

  /** Whether a part may begin now that is begun from `caller`. */
  #lets(caller: TransactionPart | undefined): boolean {
    if (this.#isSealed) return false
    if (this.#isWhole) return true
    for (let at = caller; at; at = at.#around) {
      if (at === this) return true
    }
    return false
  }

  #isInside(part: TransactionPart): boolean {
    for (let at = this.#outer; at; at = at.#outer) {
      if (at === part) return true
    }
    return false
  }

  #overlap(name: string): OncekeyError {
    return new OncekeyError(
      'steps_overlap',
      `'${name}' was not done: '${this.#name}' is under way in the same transaction, and undoing one would undo the other. Await each ` +
        'within() before the next, or call it inside the work of the other one.',
    )
  }
}

function restore<Key>(
  innermost: { set(key: Key, part: TransactionPart): unknown; delete(key: Key): unknown },
  key: Key,
  part: TransactionPart | undefined,
): void {
  if (part) innermost.set(key, part)
  else innermost.delete(key)
}
