import { storeTimeout } from '../../core/errors.js'
import type { Limit } from '../../core/store.js'
import type { SentArray } from './batching/sent-array.js'
import type { Row, SentValue, StatementOptions } from './connections/connection.js'
import type { Statements } from './plans.js'

/** For a caller that names no limit: a tool, or a test. */
const unlessNamed: Limit = { timeoutMs: 30_000 }

/** The statements of one call of the store: together they take no longer than the call may. */
export class Bounded implements Statements {
  readonly #db: Statements
  /** When the caller stops waiting, by `performance.now()`. */
  readonly until: number
  readonly #lockUntil: number

  constructor(db: Statements, { timeoutMs, lockMs = timeoutMs }: Limit = unlessNamed) {
    this.#db = db
    this.until = performance.now() + timeoutMs
    this.#lockUntil = performance.now() + Math.min(lockMs, timeoutMs)
  }

  get mark(): string | undefined {
    return this.#db.mark
  }

  /** How long it may still wait for what others have locked. */
  leftMs(): number {
    return this.#lockUntil - performance.now()
  }

  query(text: string, values: readonly (SentValue | SentArray)[], options?: StatementOptions): Promise<readonly Row[]> {
    const timeoutMs = this.until - performance.now()
    if (timeoutMs <= 0) return Promise.reject(storeTimeout({ neverSent: true }))
    const asked = this.#db.query(text, values, { often: options?.often, timeoutMs })
    return this.#db.endsInTime ? asked : orTimeout(asked, timeoutMs)
  }
}

/** A driver that hands out no connection cannot be stopped, but its caller need not wait for it. */
function orTimeout<T>(asked: Promise<T>, timeoutMs: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(storeTimeout()), timeoutMs)
    asked.finally(() => clearTimeout(timer)).then(resolve, reject)
  })
}
