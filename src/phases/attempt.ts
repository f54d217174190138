import type { StepStore } from '../core/store.js'
import type { Held } from '../engine/held.js'
import type { Holding } from '../engine/lease-keeper.js'
import type { Ledger } from './ledger.js'
import { BodyRun, type OperationRun } from './operation-run.js'

/** A holder's attempt at a key. Its run is made when it is first used: few handlers behind `idempotency()` do. */
export class Attempt<Tx> {
  readonly #held: Held
  readonly #steps: () => StepStore<Tx>
  #run: BodyRun<Tx> | undefined
  #isOver = false

  /** `steps` is what steps are made with. It throws for a store that has none. */
  constructor(held: Held, steps: () => StepStore<Tx>) {
    this.#held = held
    this.#steps = steps
  }

  get run(): OperationRun<Tx> {
    if (!this.#run) {
      this.#run = new BodyRun(this.#held, this.#steps)
      if (this.#isOver) BodyRun.end(this.#run)
    }
    return this.#run
  }

  get incarnation(): string {
    return this.#held.lease.incarnation
  }

  get holding(): Holding {
    return this.#held.holding
  }

  /** The ledger that a step has opened, if there was one. No step may follow. */
  end(): Promise<Ledger<Tx>> | undefined {
    this.#isOver = true
    return this.#run && BodyRun.end(this.#run)
  }
}
