import type { Answer } from '../core/answer.js'
import { type Duration, durationMs } from '../core/duration.js'
import { OncekeyError } from '../core/errors.js'
import type { Json } from '../core/json.js'
import { checkName } from '../core/key.js'
import { type Held, HeldRun, type Run } from '../engine/held.js'
import { type Call, type CallOptions, call } from './call.js'
import { type Fetched, type FetchOptions, fetchCall } from './fetch-call.js'
import { finish } from './finish.js'
import type { Ledger } from './ledger.js'
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

/** `open` gives the ledger of the run, which the first step opens. */
export function operationRun<Tx>(held: Held, open: () => Promise<Ledger<Tx>>): OperationRun<Tx> {
  const steps: Pick<OperationRun<Tx>, 'phase' | 'call' | 'fetch' | 'finish' | 'stage'> = {
    phase: async (name, work) => phase(await open(), name, work),
    call: async (name, work, options) => call(await open(), name, work, options),
    fetch: async (name, url, init, options) => fetchCall(await open(), name, url, init, options),
    finish: async (work) => finish(await open(), work),

    async stage(tx, name, payload, { group, delay } = {}) {
      const ledger = await open()
      if (ledger.staging?.tx !== tx) {
        throw new OncekeyError(
          'stage_outside_phase',
          `The job '${name}' was not staged: pass the transaction of the phase or finish that is open, inside of it.`,
        )
      }
      checkName('step_name_invalid', 'name of the job', name)
      if (group !== undefined) checkName('option_invalid', 'group of the job', group)
      const delayMs = delay === undefined || delay === 0 ? 0 : durationMs(delay, 'delay')
      const json = resultJson(`the job '${name}'`, payload) ?? 'null'
      ledger.staging.jobs.push({ id: held.parts.random.uuid(), name, payload: json, group: group ?? null, delayMs })
    },
  }
  return Object.assign(new HeldRun(held), steps)
}
