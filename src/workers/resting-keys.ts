import type { WaitingKey } from '../core/store.js'

const firstRestMs = 1_000
const longestRestMs = 60_000
/** Above this, the keys that have rested longest are retried early. */
const mostResting = 1_000

/**
 * Keys whose attempt changed nothing: the row is locked, or the store failed before the claim. They stay first in line, so each rests
 * with backoff; otherwise the keys behind them would starve.
 */
export class RestingKeys {
  readonly #now: () => number
  readonly #tried = new Map<string, { readonly attempts: number; readonly times: number; readonly until: number }>()

  /** `now` is a monotonic clock. */
  constructor(now: () => number) {
    this.#now = now
  }

  /** How many rest now. */
  get count(): number {
    const now = this.#now()
    return [...this.#tried.values()].filter(({ until }) => now < until).length
  }

  /** More attempts than recorded: the key was claimed since, so the attempt did change something. */
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
