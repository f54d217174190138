import type { Store } from '../core/store.js'
import { answerCases } from './store-cases/answers.js'
import { asyncCases } from './store-cases/async.js'
import { claimCases } from './store-cases/claims.js'
import { leaseCases } from './store-cases/leases.js'
import { outboxCases } from './store-cases/outbox.js'
import { retentionCases } from './store-cases/retention.js'
import type { StoreCase } from './store-cases/store-case.js'
import { transactionCases } from './store-cases/transactions.js'
import { turnCases } from './store-cases/turns.js'
import { upkeepCases } from './store-cases/upkeep.js'

export interface StoreHarness<Tx = never> {
  readonly store: Store<Tx>
  /** Advances the store's time without waiting: moves its clock forward, or its rows' times back. */
  advance(ms: number): Promise<void> | void
  /** For stores with transactions: writes a mark inside `tx`, and says whether a mark was committed. */
  readonly marks?: { leave(tx: Tx, mark: string): Promise<void>; exists(mark: string): Promise<boolean> }
}

export interface ExerciseStoreOptions<Tx> {
  /** The test function of your runner: `test` or `it` of vitest, jest or node:test. */
  test: (name: string, run: () => Promise<void>) => unknown
  /** Called once for each test. The store may be shared: every test uses its own tenant. */
  setup: () => Promise<StoreHarness<Tx>> | StoreHarness<Tx>
}

/**
 * The store contract as a test suite. Every store must pass it. It never waits for time to pass.
 *
 * @example exerciseStore({ test, setup: () => ({ store: myStore(clock), advance: (ms) => clock.advance(ms) }) })
 */
export function exerciseStore<Tx>({ test, setup }: ExerciseStoreOptions<Tx>): void {
  const cases: StoreCase<Tx>[] = [
    ...claimCases,
    ...leaseCases,
    ...answerCases,
    ...retentionCases,
    ...asyncCases,
    ...upkeepCases,
    ...turnCases,
    ...transactionCases,
    ...outboxCases,
  ]
  for (const { name, run } of cases) {
    test(name, async () => run(await setup()))
  }
}
