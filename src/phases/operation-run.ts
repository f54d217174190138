import type { Answer } from '../core/answer.js'
import { type Duration, durationMs } from '../core/duration.js'
import { OncekeyError } from '../core/errors.js'
import type { Json } from '../core/json.js'
import { checkName } from '../core/key.js'
import type { StepStore } from '../core/store.js'
import { type Held, HeldRun, type Run, whileCertain } from '../engine/held.js'
import { patiently } from '../engine/patience.js'
import { type Call, type CallOptions, call } from './call.js'
import { type Fetched, type FetchOptions, fetchCall } from './fetch-call.js'
import { finish } from './finish.js'
import { Ledger, StagedLate } from './ledger.js'
import { phase } from './phase.js'
import { resultJson } from './result-json.js'

/** A run that can have steps: they are done once, and a later attempt goes on after the last one that was committed. */
export interface OperationRun<Tx> extends Run {
  /**
   * Local writes, committed in one transaction together with the phase's result and the new recovery point. If two transactions get
   * in each other's way it is run again whole, so it must do nothing but write to `tx`.
   */
  phase<T>(name: string, work: (tx: Tx) => Promise<T> | T): Promise<Json<T>>
  /** One foreign state mutation (charge, mail, other API), made outside of any transaction. */
  call<T>(name: string, work: (call: Call) => Promise<T> | T, options?: CallOptions<T>): Promise<Json<T>>
  /**
   * A call that is one HTTP request, with its derived key as `Idempotency-Key`. A 2xx is its result; what any other status means for a
   * retry is in the guide. A `GET` is sent without a key, and its result is remembered like any other.
   */
  fetch<T = Fetched>(name: string, url: string | URL, init?: RequestInit, options?: FetchOptions<T>): Promise<Json<T>>
  /** The last writes and the answer, in one commit. Return what it returns. */
  finish<R extends Answer>(work: (tx: Tx) => Promise<R> | R): Promise<R>
  /** Stages a side effect in the transaction of the phase or finish that is open. The relay delivers it later, at least once. */
  stage(tx: Tx, name: string, payload: unknown, options?: StageOptions): Promise<void>
}

export interface StageOptions {
  /**
   * Jobs of one group, of a tenant, are delivered one after the other, in the order in which they were staged: while one waits for its
   * retry, so do those behind it. Too coarse: one receiver that is down holds up many. Too fine: no order. Default: in any order.
   */
  group?: string
  /** How long after the commit it may be delivered. Those behind it in its group wait too. Default: at once. */
  delay?: Duration
}

/**
 * The run of a body, with its steps. The first of them opens the ledger: a body without steps costs the store nothing for them. Each step
 * is a function of its own, which may be taken off the run or copied with it.
 */
export class BodyRun<Tx> extends HeldRun implements OperationRun<Tx> {
  readonly #held: Held
  readonly #store: () => StepStore<Tx>
  #ledger: Promise<Ledger<Tx>> | undefined
  #isOver = false

  /** `store` is what steps are made with. It throws for a store that has none. */
  constructor(held: Held, store: () => StepStore<Tx>) {
    super(held)
    this.#held = held
    this.#store = store
  }

  readonly phase: OperationRun<Tx>['phase'] = async (name, work) => phase(await this.#open(), name, work)

  readonly call: OperationRun<Tx>['call'] = async (name, work, options) => call(await this.#open(), name, work, options)

  readonly fetch: OperationRun<Tx>['fetch'] = async (name, url, init, options) => fetchCall(await this.#open(), name, url, init, options)

  readonly finish: OperationRun<Tx>['finish'] = async (work) => finish(await this.#open(), work)

  readonly stage: OperationRun<Tx>['stage'] = (tx, name, payload, options) => {
    const staged = this.#stage({ ...options, tx, name, payload }).catch((error: unknown) => {
      // The phase that is open fails with it.
      if (error instanceof StagedLate) staged.catch(() => {})
      throw error
    })
    return staged
  }

  async #stage(job: StagedJob<Tx>): Promise<void> {
    stage(this.#held, await this.#open(), job)
  }

  /** The ledger that a step has opened, if there was one. No step may follow. */
  static end<Tx>(run: BodyRun<Tx>): Promise<Ledger<Tx>> | undefined {
    run.#isOver = true
    return run.#ledger
  }

  #open(): Promise<Ledger<Tx>> {
    if (this.#isOver) throw new OncekeyError('steps_overlap', 'The run is over: no step may follow the end of its body. Await every step.')
    this.#ledger ??= openLedger(this.#held, this.#store())
    return this.#ledger
  }
}

/** What earlier attempts left, for a run that goes on from there. */
export async function openLedger<Tx>(held: Held, store: StepStore<Tx>): Promise<Ledger<Tx>> {
  const { recoveryPoint, takenOver } = held.before
  if (!takenOver) return new Ledger(held, store, null, { steps: [], lastCommitAgeMs: 0 })
  const history = await patiently((limit) => store.stepsRead(held.lease, limit), whileCertain(held), held.parts)
  return new Ledger(held, store, recoveryPoint, history)
}

interface StagedJob<Tx> extends StageOptions {
  readonly tx: Tx
  readonly name: string
  readonly payload: unknown
}

function stage<Tx>({ parts }: Held, ledger: Ledger<Tx>, { tx, name, payload, group, delay }: StagedJob<Tx>): void {
  ledger.stage(tx, name, () => {
    checkName('step_name_invalid', 'name of the job', name)
    if (group !== undefined) checkName('option_invalid', 'group of the job', group)
    const delayMs = delay === undefined || delay === 0 ? 0 : durationMs(delay, 'delay')
    const json = resultJson(`the job '${name}'`, payload) ?? 'null'
    return { id: parts.random.uuid(), name, payload: json, group: group ?? null, delayMs }
  })
}
