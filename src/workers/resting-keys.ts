import type { WaitingKey } from '../core/store.js'

const firstRestMs = 1_000
const longestRestMs = 60_000
/** With more than this, those that rest longest are tried again early. */
const mostResting = 1_000

/**
 * Keys of which a try changed nothing, because their row is locked, or because the store failed before the claim. They stay first in line, so
 * each is left alone for a while, longer each time, or those behind them would never have their turn.
 */
export class RestingKeys {
  readonly #now: () => number
  readonly #tried = new Map<string, { readonly attempts: number; readonly times: number; readonly until: number }>()

  /** `now` is a monotonic clock. */
  constructor(now: () => number) {
    this.#now = now
  }

  /** How many are left alone now. */
  get count(): number {
    const now = this.#now()
    return [...this.#tried.values()].filter(({ until }) => now < until).length
  }

  /** A key with more attempts than at that time was claimed since: then the try did change something. */
  isResting(id: string, { attempts }: Pick<WaitingKey, 'attempts'>): boolean {
    const tried = this.#tried.get(id)
    if (!tried) return false
    if (tried.attempts === attempts) return this.#now() < tried.until
    this.#tried.delete(id)
    return false
  }

  rest(id: string, { attempts }: Pick<WaitingKey, 'attempts'>): void {
    const before = this.#tried.get(id)
    const times = before?.attempts === attempts ? before.times + 1 : 0
    const until = this.#now() + Math.min(longestRestMs, firstRestMs * 2 ** times)
    this.#tried.delete(id)
    this.#tried.set(id, { attempts, times, until })
    const [oldest] = this.#tried.keys()
    if (this.#tried.size > mostResting && oldest !== undefined) this.#tried.delete(oldest)
  }

  forget(id: string): void {
    this.#tried.delete(id)
  }
}
