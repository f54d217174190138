import { type Answer, checkAnswer } from '../core/answer.js'
import { OncekeyError } from '../core/errors.js'
import { checkKeyRef } from '../core/key.js'
import type { KeyClaim, StepStore, Verdict } from '../core/store.js'
import { outcomeUnknown } from '../core/system-answers.js'
import { claimKey, type Held, settleFailure, storeAnswer, whileCertain, whileHolding } from '../engine/held.js'
import { outcomeOf } from '../engine/outcome.js'
import type { EngineParts } from '../engine/parts.js'
import { patiently } from '../engine/patience.js'
import { admission, type LocalOptions, type OperationOutcome, type RunRequest } from './admission.js'
import { finishedOutcome } from './finish.js'
import { type InputOf, inputFromBytes, type OutputOf, type StandardSchema, validated } from './input.js'
import { Ledger } from './ledger.js'
import { type OperationRun, operationRun } from './operation-run.js'

export interface OperationOptions<Schema extends StandardSchema | undefined = undefined> extends LocalOptions<Schema> {
  /** Stores an error that the body throws, and replays it, as Stripe's first API does. Default false: a retry resumes. */
  storeErrors?: boolean
}

/** A named, registered piece of work that HTTP, a queue consumer or a worker can run. */
export interface Operation<Input, R extends Answer> {
  readonly name: string
  run(request: RunRequest<Input>): Promise<OperationOutcome<R>>
  /** Goes on with a key that nobody works on, from the request that was stored with it: what a worker does. */
  resume(ref: { readonly tenant: string; readonly key: string }): Promise<OperationOutcome<R>>
}

type Execute = Extract<Verdict, { kind: 'execute' }>

export function defineOperation<Tx, Schema extends StandardSchema | undefined, R extends Answer>(
  parts: EngineParts,
  store: StepStore<Tx>,
  name: string,
  options: OperationOptions<Schema>,
  body: (run: OperationRun<Tx>, input: OutputOf<Schema>) => Promise<R> | R,
): Operation<InputOf<Schema>, R> {
  const { policy, admit, newClaim } = admission(parts, name, options)

  return {
    name,

    async run(request) {
      const admitted = await admit<R>(request)
      return 'outcome' in admitted ? admitted.outcome : attempt(admitted.claim)
    },

    async resume({ tenant, key }) {
      const ref = checkKeyRef({ tenant, scope: name, key })
      const patience = { until: parts.clock.monotonic() + parts.storeTimeoutMs, tries: 3 }
      const record = await patiently(() => parts.store.keyRead(ref), patience, parts)
      if (!record?.request) throw new OncekeyError('input_invalid', `There is no stored request to resume for key ${key} of ${name}.`)
      return attempt({ ...newClaim(), ...ref, fingerprint: null, request: record.request, worker: true })
    },
  }

  async function attempt(claim: KeyClaim): Promise<OperationOutcome<R>> {
    const since = parts.clock.monotonic()
    const verdict = await claimKey(parts, claim, since)
    if (verdict.kind !== 'execute') return outcomeOf(parts, claim, verdict)
    return whileHolding(parts, claim, policy, verdict, since, async (held) => runBody(held, verdict))
  }

  async function runBody(held: Held, verdict: Execute): Promise<OperationOutcome<R>> {
    const ledger = await openLedger(held, verdict)
    let ended: { answer: R } | { error: unknown }
    try {
      // What was first received is what counts, also when a retry sent something that is merely equal.
      const input = await validated(options.input as Schema, inputFromBytes(verdict.request ?? (held.claim.request as Uint8Array)))
      if (input.issues) throw new OncekeyError('input_invalid', `The stored input of this key does not fit the schema of ${name} any more.`)
      ended = { answer: checkAnswer(await body(operationRun(ledger), input.value)) }
    } catch (error) {
      ended = { error }
    }
    const open = await ledger.openStep()
    if (open && 'answer' in ended) {
      ended = { error: new OncekeyError('steps_overlap', `The body of ${name} returned while '${open}' was under way: await every step.`) }
    }
    return conclude(ledger, ended)
  }

  async function openLedger(held: Held, { recoveryPoint, takenOver }: Execute): Promise<Ledger<Tx>> {
    if (!takenOver) return new Ledger(held, store, null, { steps: [], lastCommitAgeMs: 0 })
    const history = await patiently(() => store.stepsRead(held.lease), whileCertain(held), parts)
    return new Ledger(held, store, recoveryPoint, history)
  }

  /** The end of a run is what its steps came to, not what the body made of it: a catch cannot undo a lost lease or a parked key. */
  async function conclude(ledger: Ledger<Tx>, ended: { answer: R } | { error: unknown }): Promise<OperationOutcome<R>> {
    if (!ledger.end && 'answer' in ended) {
      // A removed phase is noticed here, where nothing is left to come to it. The parked end says the rest.
      await ledger.alone('its end', () => ledger.parkIfStepsAreUnknown('its end')).catch(() => {})
    }
    switch (ledger.end?.kind) {
      case 'finished':
        return finishedOutcome(ledger.end.answer)
      case 'parked':
        return { kind: 'parked', answer: outcomeUnknown }
      case 'lost':
      case 'crashed':
        throw ledger.end.error
    }
    if ('answer' in ended) return storeAnswer(ledger.held, ended.answer, ledger.uncommitted)
    const { held } = ledger
    // An error is not the last word while nobody knows what became of a call.
    const afterFailure = options.storeErrors && !ledger.inDoubt ? 'store' : 'rerun'
    await settleFailure({ ...held, claim: { ...held.claim, afterFailure } }, ended.error, ledger.uncommitted)
    throw ended.error
  }
}
